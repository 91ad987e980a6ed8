"""Whether sums of bytes are exact is told from the processor, and doubted where nobody can tell."""

import pytest

from model.processor import cuts_byte_sums


@pytest.mark.parametrize(
    ("flags", "cuts"),
    [
        ("flags : avx2 avx512f avx512_vnni avx512_bitalg", False),
        ("flags : avx2 avx_vnni", False),
        ("flags : avx2 avx512f", True),
    ],
)
def test_x86_is_exact_with_vnni(tmp_path, flags, cuts) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor : 0\n{flags}\n", encoding="utf-8")
    assert cuts_byte_sums("x86_64", tmp_path / "cpuinfo") is cuts
    assert cuts_byte_sums("AMD64", tmp_path / "cpuinfo") is cuts
    assert cuts_byte_sums("aarch64", tmp_path / "cpuinfo") is False


def test_x86_that_does_not_say_is_doubted(tmp_path) -> None:
    assert cuts_byte_sums("x86_64", tmp_path / "nothing") is True
