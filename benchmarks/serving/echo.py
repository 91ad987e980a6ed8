"""A server that answers what it was sent: what gRPC alone takes.

Run by lone_caller.py: python -m benchmarks.serving.echo
"""

import asyncio
import sys

import grpc

METHOD = "/Echo/Echo"


async def echo(data: bytes, context: object) -> bytes:
    return data


async def main() -> None:
    server = grpc.aio.server()
    method = grpc.unary_unary_rpc_method_handler(echo)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("Echo", {"Echo": method}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"listening on 127.0.0.1:{port}\nready after", file=sys.stderr, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
