"""Bad and unusual input of every kind, drawn at random, and what the instrument promises about it."""
