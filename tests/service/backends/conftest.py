"""Both engines over the same bundle."""

import pytest

from service.backends.loading import load_backend


@pytest.fixture(scope="module")
def onnx_backend(exported_bundle):
    return load_backend("onnx", exported_bundle, threads=1, spinning=False)


@pytest.fixture(scope="module")
def torch_backend(exported_bundle):
    return load_backend("torch", exported_bundle, threads=1)


@pytest.fixture(params=["onnx", "torch"])
def backend(request, onnx_backend, torch_backend):
    return {"onnx": onnx_backend, "torch": torch_backend}[request.param]
