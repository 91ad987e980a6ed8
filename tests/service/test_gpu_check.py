"""The check of a GPU, as far as it can be run without one."""

import numpy as np
import pytest

from benchmarks import gpu_check
from tests.service.backends.test_devices import without_cuda


@without_cuda
def test_without_a_gpu_it_says_so_in_one_line_and_exits_with_2(capsys) -> None:
    assert gpu_check.main([]) == gpu_check.NO_GPU
    said = capsys.readouterr().out
    assert said.startswith("no GPU to check: onnx: ")
    assert said.count("\n") == 1


def test_only_labels_of_confident_texts_must_be_equal() -> None:
    expected = np.array([[2.0, 0.0], [0.01, 0.0]])
    said = gpu_check.check_logits(expected[:, :] - [[0, 0], [0.02, 0]], expected, 0.1)
    assert "1 confident labels equal" in said
    with pytest.raises(AssertionError, match="logits differ by 2"):
        gpu_check.check_logits(expected[:, ::-1], expected, 0.1)
    with pytest.raises(AssertionError, match="1 confident labels differ"):
        gpu_check.check_logits(expected[:, ::-1], expected, 3.0)


def test_a_check_that_fails_is_told_and_ends_nothing(capsys) -> None:
    assert gpu_check.checked("one", lambda: "fine")
    assert not gpu_check.checked("two", lambda: str(1 // 0))
    said = capsys.readouterr().out
    assert said.startswith("ok     one")
    assert "FAILED two" in said
    assert "ZeroDivisionError" in said
