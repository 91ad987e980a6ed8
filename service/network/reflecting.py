"""Server reflection whose open streams end when the server stops, as health's watches do."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from grpc_reflection.v1alpha._async import ReflectionServicer


class Reflection(reflection_pb2_grpc.ServerReflectionServicer):  # type: ignore[misc]
    """Answers like gRPC's own, whose streams stay open for as long as a caller likes."""

    def __init__(self, services: Sequence[str]) -> None:
        self._answers = ReflectionServicer((*services, reflection.SERVICE_NAME))
        self._ended = asyncio.Event()

    def end_streams(self) -> None:
        """Ends every stream, now and from now on, so that none holds up a stop."""
        self._ended.set()

    async def ServerReflectionInfo(  # noqa: N802 - the protocol's name
        self, requests: AsyncIterator[Any], context: Any
    ) -> None:
        answering = asyncio.create_task(self._answer(requests, context))
        ended = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait({answering, ended}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
        finally:
            answering.cancel()
            ended.cancel()

    async def _answer(self, requests: AsyncIterator[Any], context: Any) -> None:
        async for answer in self._answers.ServerReflectionInfo(requests, context):
            await context.write(answer)
