"""Rank, soft rank and second moments of batch-normalised chains; when ReLU neurons give full rank (002, 000)."""
