"""Benchmarks are run by hand; that their modules fit together is held here."""

from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "benchmarks").rglob("*.py"))
MODULES = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES]


@pytest.mark.parametrize("name", MODULES)
def test_it_can_be_imported_and_says_how_it_is_run(name) -> None:
    module = import_module(name)
    assert module.__doc__
    if hasattr(module, "main"):
        command = name.removesuffix(".__main__")
        assert command in module.__doc__ or "make" in module.__doc__
