"""The classifier: config, tokenizer, packing, bundle (free of torch); encoder, data, training."""

import os

# ONNX Runtime 1.32 on Linux writes a device id into the home folder and reports to its maker unless
# this is set before its first import, and every package of ours that imports it imports this first.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
