"""The classifier: config, tokenizer, packing, bundle (free of torch); encoder, data, training."""
