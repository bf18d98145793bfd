"""Studies of papers on transformers; one module per paper."""
