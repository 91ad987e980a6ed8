"""The gRPC server; docs/architecture.md shows its rooms."""
