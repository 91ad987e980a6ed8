"""Imports point one way: docs/architecture.md has the table, this file holds it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = {"heedful", "model", "export", "service", "web", "cli"}
TORCH_HALF = {"encoder", "weights", "data", "training"}
# Package -> the packages of ours it may import.
ALLOWED = {
    "proto/heedful": set(),
    "model": set(),
    "export": {"model"},
    "service": {"model", "heedful"},
    "web": {"heedful"},
}
CLIENT_COMMANDS = {"classify.py", "attend.py", "models.py"}


def imports_of(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def sources(package: str) -> list[Path]:
    return [path for path in (ROOT / package).rglob("*.py") if "_pb2" not in path.name]


def packages_of_ours(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports_of(path)} & OURS


@pytest.mark.parametrize("package", ALLOWED)
def test_packages_import_only_what_stands_below_them(package) -> None:
    own = package.rsplit("/", maxsplit=1)[-1]
    for path in sources(package):
        assert packages_of_ours(path) <= ALLOWED[package] | {own}, path


def needs_torch(path: Path) -> bool:
    names = imports_of(path)
    torch_half = {f"model.{module}" for module in TORCH_HALF}
    return any(
        name.split(".")[0] == "torch"
        or name in torch_half
        or ".".join(name.split(".")[:2]) in torch_half
        for name in names
    )


def test_torch_stays_in_its_half_of_model() -> None:
    for path in sources("model"):
        part = path.relative_to(ROOT / "model").parts[0].removesuffix(".py")
        assert part in TORCH_HALF or not needs_torch(path), path


def test_the_server_touches_torch_in_one_file_only() -> None:
    touching = {path.name for path in sources("service") if needs_torch(path)}
    assert touching <= {"torch_backend.py"}


def test_client_commands_import_only_heedful() -> None:
    for path in sources("cli"):
        if path.name in CLIENT_COMMANDS:
            assert packages_of_ours(path) <= {"heedful", "cli"}, path


def test_the_client_leaves_the_open_inference_stubs_alone() -> None:
    # Beside tritonclient's or KServe's they could not be imported.
    for path in sources("proto/heedful"):
        assert not any(name.startswith("heedful.oip") for name in imports_of(path)), path


def test_no_package_is_called_proto() -> None:
    assert not (ROOT / "proto" / "__init__.py").exists()
