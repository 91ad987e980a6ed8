"""What stands between the network and the methods: port, TLS, tokens, limits of connections."""

import logging
from pathlib import Path

import grpc
import grpc.aio

from model.errors import SetupError
from service.config import ServerConfig
from service.metrics import Metrics
from service.network.tls import TlsFiles, server_credentials
from service.network.tokens import Door, Tokens

# A peer that does not answer a ping within this time is gone.
KEEPALIVE_TIMEOUT_MS = 20_000
# A connection that has not said hello by then is closed; gRPC's default is two minutes.
HANDSHAKE_TIMEOUT_MS = 20_000

log = logging.getLogger(__name__)


class Transport:
    """How a server is reached, by its settings."""

    def __init__(self, config: ServerConfig, metrics: Metrics) -> None:
        """Reads certificates and tokens.

        Raises:
            SetupError: they cannot be used.
        """
        self._config = config
        self._credentials: grpc.ServerCredentials | None = None
        self.interceptors: list[grpc.aio.ServerInterceptor] = []
        reloads = metrics.file_reloads
        if config.tls_cert:
            client_ca = Path(config.tls_client_ca) if config.tls_client_ca else None
            files = TlsFiles(Path(config.tls_cert), Path(config.tls_key), client_ca)
            self._credentials = server_credentials(
                files, lambda outcome: reloads.labels("tls", outcome).inc()
            )
        if config.tokens_file:
            tokens = Tokens(
                Path(config.tokens_file), lambda outcome: reloads.labels("tokens", outcome).inc()
            )
            self.interceptors.append(Door(tokens, metrics))

    @property
    def options(self) -> list[tuple[str, int]]:
        """Channel arguments for grpc.aio.server."""
        config = self._config
        options = [
            # By default two servers can hold one port, each with half of the callers.
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", config.max_message_bytes),
            # Callers behind a NAT may ping more often than the default of 5 minutes.
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
            ("grpc.max_allowed_incoming_connections", config.max_connections),
            ("grpc.max_concurrent_streams", config.max_concurrent_streams),
            # Our own pings find peers that are gone without a word, also between calls.
            ("grpc.keepalive_time_ms", _milliseconds(config.keepalive_seconds)),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.server_handshake_timeout_ms", HANDSHAKE_TIMEOUT_MS),
            ("grpc.enable_channelz", int(config.channelz)),
        ]
        if config.max_connection_age:
            age = _milliseconds(config.max_connection_age)
            grace = _milliseconds(config.max_connection_age_grace)
            options += [
                ("grpc.max_connection_age_ms", age),
                ("grpc.max_connection_age_grace_ms", grace),
            ]
        if config.max_connection_idle:
            options.append(
                ("grpc.max_connection_idle_ms", _milliseconds(config.max_connection_idle))
            )
        return options

    def add_services(self, server: "grpc.aio.Server") -> list[str]:
        """Adds channelz if it is asked for, and gives the names of what was added.

        Raises:
            SetupError: it is not installed.
        """
        if not self._config.channelz:
            return []
        try:
            from grpc_channelz.v1 import channelz
        except ModuleNotFoundError:
            raise SetupError(
                "--channelz needs the package grpcio-channelz: pip install 'heedful[serve]'"
            ) from None
        channelz.add_channelz_servicer(server)
        return ["grpc.channelz.v1.Channelz"]

    def add_port(self, server: "grpc.aio.Server") -> int:
        """Opens the port and says how it is guarded; a RuntimeError if gRPC cannot bind it."""
        config = self._config
        if self._credentials is None:
            if config.tokens_file:
                log.warning(
                    "tokens travel unencrypted: anybody on the way can read and use them. "
                    "Give --tls-cert and --tls-key, or let a proxy encrypt the whole way"
                )
            return server.add_insecure_port(config.address)
        port = server.add_secure_port(config.address, self._credentials)
        log.info(
            "TLS; callers %s",
            "must show a certificate" if config.tls_client_ca else "need no certificate",
        )
        return port


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
