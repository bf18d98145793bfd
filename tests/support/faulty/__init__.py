"""Code that breaks every promise, to see that `tools/fuzz.py` notices."""
