"""Everything an operator can set, checked when it is built."""

from dataclasses import dataclass, fields
from typing import Literal

from model.errors import SetupError

BackendKind = Literal["onnx", "torch"]


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Settings of one server.

    Attributes:
        host: address that the gRPC and metrics ports listen on.
        port, metrics_port: 0 takes a free one, which is logged.
        instances: runs at once; 0 takes as many as fill the container's CPU quota.
        threads: of each instance; 0 takes what the quota leaves for one.
        allow_cpu: whether to run on the CPU where the device is not to be had.
        gpu_memory_mb: MiB that may be taken on CUDA; 0 is all there is.
        no_compile: whether torch runs the network on CUDA as it is written.
        run_tokens: tokens of one engine run, a longer text runs alone; 0 takes what suits the
            device.
        max_queue_texts, max_queue_tokens: what may wait for an engine.
        max_queue_seconds: what may wait, as the engine's work is predicted to take.
        max_wait_ms: milliseconds an idle engine waits for company of a text.
        max_tokenize_characters: text that may wait for the tokenizer.
        max_inputs: inputs of one request.
        max_text_bytes: bytes of one text.
        max_message_bytes: bytes of one request on the wire.
        max_attention_bytes: attention in one answer.
        max_unread_bytes: attention of all answers together that is computed or not yet read.
        max_stream_requests: unanswered requests of one stream.
        cache_mb: MiB of answers that are kept to be given again; 0 keeps none.
        models: folder of NAME/VERSION folders with a bundle each, which is followed; empty is none.
        model: bundles as NAME=DIR, each served under that name.
        keep_versions: versions of one model that stay loaded; 0 is all.
        poll_seconds: between two looks into the folder of models; 0 never looks again.
        allow_admin: whether callers may load and unload models and move defaults.
        canary_seconds: between two runs of each model's known example; 0 never runs it.
        stuck_seconds: an engine run that takes longer makes health NOT_SERVING, and so do texts
            that wait longer while no engine runs; 0 never does.
        tls_cert, tls_key: PEM files; empty serves plain text.
        tls_client_ca: PEM file; callers must show a certificate that it has signed.
        tokens_file: bearer tokens, one a line; empty lets anybody call.
        max_connections: open at once; more are closed as they come.
        max_concurrent_streams: calls under way on one connection; more wait or get UNAVAILABLE.
        keepalive_seconds: of silence before a caller is asked whether it is there.
        max_connection_age: seconds until a caller is asked to connect anew; 0 is never.
        max_connection_age_grace: seconds that its calls then get to finish.
        max_connection_idle: seconds until a connection without calls is closed; 0 is never.
        channelz: whether connections and calls can be looked into over gRPC.
        default_timeout: seconds a caller gets who sets no deadline.
        drain_delay: seconds between reporting not ready and refusing new work.
        grace: seconds that accepted work gets to finish after that.
    """

    host: str = "127.0.0.1"
    port: int = 50051
    metrics_port: int = 9100
    backend: BackendKind = "onnx"
    device: str = "cpu"
    instances: int = 0
    threads: int = 0
    allow_cpu: bool = False
    gpu_memory_mb: int = 0
    no_compile: bool = False
    run_tokens: int = 0
    max_queue_texts: int = 1024
    max_queue_tokens: int = 65536
    max_queue_seconds: float = 10.0
    max_wait_ms: float = 0.0
    max_tokenize_characters: int = 8 << 20
    max_inputs: int = 64
    max_text_bytes: int = 1 << 20
    max_message_bytes: int = 16 << 20
    max_attention_bytes: int = 16 << 20
    max_unread_bytes: int = 256 << 20
    max_stream_requests: int = 64
    cache_mb: int = 0
    models: str = ""
    model: tuple[str, ...] = ()
    keep_versions: int = 2
    poll_seconds: float = 10.0
    allow_admin: bool = False
    canary_seconds: float = 30.0
    stuck_seconds: float = 30.0
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    tokens_file: str = ""
    max_connections: int = 4096
    max_concurrent_streams: int = 1024
    keepalive_seconds: float = 60.0
    max_connection_age: float = 0.0
    max_connection_age_grace: float = 30.0
    max_connection_idle: float = 0.0
    channelz: bool = False
    default_timeout: float = 30.0
    drain_delay: float = 0.0
    grace: float = 20.0

    def __post_init__(self) -> None:
        may_be_zero = {"port", "metrics_port", "instances", "threads", "drain_delay", "max_wait_ms"}
        may_be_zero |= {"run_tokens", "gpu_memory_mb"}
        may_be_zero |= {"keep_versions", "poll_seconds", "canary_seconds", "stuck_seconds"}
        may_be_zero |= {"max_connection_age", "max_connection_idle", "cache_mb"}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, str | tuple | bool):
                continue
            if not (value >= 0 if item.name in may_be_zero else value > 0):
                raise SetupError(f"{item.name} must be positive, got {value}")
        for name in ("port", "metrics_port"):
            if getattr(self, name) > 65535:
                raise SetupError(f"{name} must be at most 65535, got {getattr(self, name)}")
        if self.port and self.port == self.metrics_port:
            raise SetupError(f"port and metrics_port are both {self.port}: choose two")
        self._check_transport()
        if self.max_unread_bytes < self.max_attention_bytes:
            raise SetupError(
                f"max_unread_bytes {self.max_unread_bytes} is under max_attention_bytes "
                f"{self.max_attention_bytes}: a full answer would need all of it and more"
            )
        if self.max_queue_texts < self.max_inputs:
            raise SetupError(
                f"max_queue_texts {self.max_queue_texts} is under max_inputs {self.max_inputs}: "
                "a full request could never be admitted"
            )

    def _check_transport(self) -> None:
        if bool(self.tls_cert) != bool(self.tls_key):
            given, lacking = ("cert", "key") if self.tls_cert else ("key", "cert")
            raise SetupError(f"--tls-{given} is given without --tls-{lacking}: TLS needs both")
        # gRPC reads it as milliseconds in 32 bits, and shorter ones as a second or more.
        for name in ("keepalive_seconds", "max_connection_age", "max_connection_idle"):
            if not getattr(self, name) <= 2_000_000:
                raise SetupError(f"{name} must be at most 2000000 (23 days)")
        if self.tls_client_ca and not self.tls_cert:
            raise SetupError("--tls-client-ca is given without --tls-cert and --tls-key")

    @property
    def address(self) -> str:
        """Where gRPC is to listen, as gRPC spells it."""
        return self.address_with(self.port)

    def address_with(self, port: int) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{port}"
