"""What a server says when its engine does not get through the warm-up."""

import pytest

from model.errors import BundleError
from model.packing import PackedRows
from service.backends import FloatArray
from service.config import ServerConfig
from service.server import Server
from tests.service.engines import NumpyEngine

FREE = ServerConfig(port=0, metrics_port=0, instances=1, threads=1)


class BrokenEngine(NumpyEngine):
    """Fails as a graph with a broken node does: over several lines, with an error of its own."""

    def run(self, rows: PackedRows) -> FloatArray:
        raise RuntimeError("Non-zero status code\nwhile running Gather node" + " and so on" * 100)


async def test_an_engine_that_fails_is_named_in_one_line_with_the_cause(tiny_bundle) -> None:
    server = Server(FREE, tiny_bundle, lambda bundle, config: BrokenEngine())
    with pytest.raises(BundleError, match="engine numpy on cpu") as failed:
        await server.start()
    said = str(failed.value)
    assert "RuntimeError: Non-zero status code while running Gather node" in said
    assert "--backend" in said
    assert "\n" not in said
    assert len(said) < 600
