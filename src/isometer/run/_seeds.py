"""Seeds from coordinates."""

from __future__ import annotations

import hashlib

import numpy as np


def seed_of(text: str) -> int:
    """A seed that depends on a text alone: not on order, worker, process or platform.

    The 256 bits of the text's SHA-256 are the entropy of a `numpy.random.SeedSequence`, whose first 63 bits are the
    seed.

    Args:
        text: what the numbers belong to, such as the canonical configuration of a cell.

    Returns:
        A whole number from 0 to 2⁶³ − 1, good for NumPy and for torch.

    Example:
        >>> seed_of('{"width":64}') == seed_of('{"width":64}') != seed_of('{"width":65}')
        True
    """
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    state = np.random.SeedSequence([int(word) for word in words]).generate_state(2, np.uint32)
    return (int(state[0]) << 31) | (int(state[1]) >> 1)  # 32 and 31 bits
