"""What passes between gRPC and us, with a context that does what gRPC's does in rare moments."""

import asyncio
import logging
from types import SimpleNamespace

import grpc
import pytest

from service.metrics import Metrics
from service.network.border import SERVICE, Border
from service.versions.models import Models

NOT_A_REQUEST = b"\xff"


class Gone:
    """A call whose caller leaves while it is being refused."""

    def time_remaining(self) -> float:
        return 5.0

    async def abort(self, *_: object) -> None:
        raise grpc.aio.InternalError("Failed execute_batch")


async def test_a_caller_that_leaves_while_it_is_refused_is_no_fault_of_the_server(caplog) -> None:
    border = Border(Models(), metrics=Metrics(), default_timeout=5.0)
    called = SimpleNamespace(method=f"/{SERVICE}/Classify", invocation_metadata=())
    method = border.handlers().service(called)
    with caplog.at_level(logging.INFO), pytest.raises(asyncio.CancelledError):
        await method.unary_unary(NOT_A_REQUEST, Gone())
    assert not caplog.records
    await asyncio.wait_for(border.idle(), 1)
