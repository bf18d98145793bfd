"""How far batch-normalised linear networks are from orthogonal, and what orthogonalisation does (003)."""
