"""What `import heedful` gives, and what it needs."""

import subprocess
import sys

import heedful


def test_the_public_names_are_these() -> None:
    assert sorted(heedful.__all__) == [
        "Admin",
        "AnswerError",
        "AsyncClient",
        "Attention",
        "AttentionRequest",
        "Classification",
        "ClassifyOptions",
        "Client",
        "DeadlineExceededError",
        "FailedPreconditionError",
        "HeedfulError",
        "InternalError",
        "InvalidArgumentError",
        "LabelScore",
        "LoadedVersion",
        "ModelInfo",
        "ModelVersion",
        "NotFoundError",
        "RequestError",
        "ResourceExhaustedError",
        "Timings",
        "Tls",
        "Token",
        "Tokenization",
        "TokenizeOptions",
        "TruncationLoss",
        "UnauthenticatedError",
        "UnavailableError",
    ]
    assert all(hasattr(heedful, name) for name in heedful.__all__)


def test_the_client_and_its_terminal_pictures_load_three_packages_only() -> None:
    code = (
        "import sys, heedful, heedful.pictures.terminal, heedful.pictures.html\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"grpc", "numpy", "google"} <= loaded
    assert not loaded & {"matplotlib", "click", "torch", "model", "service", "cli", "tokenizers"}
