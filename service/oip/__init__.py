"""The Open Inference Protocol, version 2, in front of the same models, queue and metrics."""
