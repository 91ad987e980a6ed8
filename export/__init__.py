"""Turns a bundle into ONNX graphs and proves them equal to PyTorch."""
