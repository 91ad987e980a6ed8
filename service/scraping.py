"""The page that Prometheus scrapes, on a port of its own."""

import socket
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from model.errors import SetupError
from service.metrics import Metrics

# How soon a stop is noticed; http.server's own half a second would be most of a stop.
POLL_SECONDS = 0.02


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Being scraped is no news."""


class _Ipv6Server(ThreadingWSGIServer):
    address_family = socket.AF_INET6


class MetricsServer:
    """Serves /metrics from threads of its own; port 0 takes a free one.

    Raises:
        SetupError: the port or address is not to be had.
    """

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        kind = _Ipv6Server if ":" in host else ThreadingWSGIServer
        app = make_wsgi_app(metrics.registry)
        try:
            self._server = make_server(host, port, app, kind, _Quiet)
        except OSError as error:
            raise SetupError(
                f"the metrics port {host}:{port} cannot be opened ({error.strerror}): stop what "
                "uses it, or choose others with --host and --metrics-port"
            ) from None
        self.port = self._server.server_port
        self._thread = Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), name="metrics", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
