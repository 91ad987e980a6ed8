"""Just enough HTTP/2 to misbehave in it."""

import socket

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, ACK, END_HEADERS = 1, 1, 4
TIMEOUT = 20


def connect(address: str) -> socket.socket:
    """A connection on which nothing has been said."""
    host, _, port = address.rpartition(":")
    line = socket.create_connection((host, int(port)), timeout=TIMEOUT)
    line.settimeout(TIMEOUT)
    return line


def frame(kind: int, payload: bytes = b"", flags: int = 0, stream: int = 0) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


def greeting(**_: object) -> bytes:
    return PREFACE + frame(SETTINGS)


def field(name: bytes, value: bytes) -> bytes:
    """A header field, written out in full."""
    return b"\0" + _text(name) + _text(value)


def call(path: str, *more: bytes, stream: int = 1) -> bytes:
    """The headers of a gRPC call, without its end."""
    fields = [
        field(b":method", b"POST"),
        field(b":scheme", b"http"),
        field(b":path", path.encode()),
        field(b":authority", b"localhost"),
        field(b"te", b"trailers"),
        field(b"content-type", b"application/grpc"),
        *more,
    ]
    return frame(HEADERS, b"".join(fields), END_HEADERS, stream)


def message(claimed: int, data: bytes = b"") -> bytes:
    """The beginning of a gRPC message that claims a length."""
    return b"\0" + claimed.to_bytes(4, "big") + data


def next_frame(line: socket.socket) -> tuple[int, int, bytes]:
    """Kind, stream and payload; kind -1 at the end of the connection."""
    try:
        header = line.recv(9, socket.MSG_WAITALL)
    except ConnectionResetError:
        return -1, 0, b""
    if len(header) < 9:
        return -1, 0, b""
    payload = line.recv(int.from_bytes(header[:3], "big"), socket.MSG_WAITALL)
    return header[3], int.from_bytes(header[5:9], "big"), payload


def _text(text: bytes) -> bytes:
    size = len(text)
    if size < 127:
        return bytes([size]) + text
    size, head = size - 127, bytearray([127])
    while size >= 128:
        head.append(size % 128 + 128)
        size //= 128
    head.append(size)
    return bytes(head) + text
