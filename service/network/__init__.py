"""From the wire to a call: ports, TLS, who may call, health, streams and the status table."""
