"""What may be wrong where a connection does not come about, as far as gRPC's words tell."""

FAILED = "HANDSHAKE_FAILED"
# A server that refuses us in the handshake hangs up, and we are told no more than that.
HUNG_UP = ("Socket closed", "reset by peer", "Broken pipe")


def is_no_connection(details: str) -> bool:
    """Whether a call that is UNAVAILABLE never reached a server."""
    return any(word in details for word in ("connect", "resolution", "resolving"))


def explain(details: str, target: str) -> tuple[str, str]:
    """What to tell a caller that has no connection, and FAILED if somebody was there, else ""."""
    if "WRONG_VERSION_NUMBER" in details:
        return f"{target} does not speak TLS: ask it without", FAILED
    if "Hostname Verification" in details:
        return (
            f"the certificate that {target} shows is for another name: ask for a name that is in "
            "it, or have one issued that has this one",
            FAILED,
        )
    if "handshake failed" in details:
        cause = details.rpartition("OPENSSL_internal:")[2].removesuffix(": OK")
        return (
            f"the certificate that {target} shows is not trusted ({cause}): ca_cert must name who "
            "has signed it",
            FAILED,
        )
    if any(words in details for words in HUNG_UP):
        return (
            f"{target} closed the connection before anything was asked: it wants TLS, or a client "
            "certificate whose signer it trusts, or it has no connection to spare",
            FAILED,
        )
    # gRPC tells the whole way there; the cause stands at the end.
    return f"no server answers at {target} ({details.rpartition(': ')[2].rstrip(']')})", ""
