"""The gRPC server: servicer, scheduler, backends, metrics, health."""
