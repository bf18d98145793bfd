"""001, §C.4: ranks of batches of images."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from isometer.run import seed_of
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims._statements import Sampled, empirical, equal

_TABLE = {16: 16.0, 32: 32.0, 64: 64.0, 128: 128.0, 256: 238.19, 512: 275.37}


def _batches(*sizes: int, batches: int = 12) -> Any:
    """Batches of Fashion-MNIST; none where the data set is not on this computer."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        from isometer.data import find

        if find("fashion-mnist") is None:
            return
        for n in sizes[:count]:
            yield {"data": "fashion-mnist", "n": n, "batches": batches}

    return generator


@lru_cache(maxsize=1)
def _images() -> Any:
    from isometer.data import load

    data = load("fashion-mnist")
    return data.images.reshape(len(data.images), -1)


@lru_cache(maxsize=16)
def _of_batches(n: int, batches: int, what: str) -> Any:
    import torch

    rng = np.random.default_rng(seed_of(f"001 batches {n} {batches} {what}"))
    images, found = _images(), []
    for _ in range(batches):
        batch = images[rng.choice(len(images), n, replace=False)].astype(np.float64) / 255
        if what == "gram":
            single = torch.as_tensor(batch, dtype=torch.float32)
            found.append(float(torch.linalg.matrix_rank(single @ single.T)))
        elif what == "double":
            values = np.linalg.eigvalsh(batch @ batch.T)
            found.append(float((values > n * np.finfo(float).eps * values[-1]).sum()))
        else:
            found.append(float(np.linalg.matrix_rank(batch)))
    return np.array(found)


def _of_data(what: str) -> Any:
    def estimate(i: Instance, rng: Rng) -> Estimate:
        values = _of_batches(i["n"], i["batches"], what)
        found = Estimate.of(values)
        # ranks that are all equal have no spread, and an error of 0 would mean an exact number
        return Estimate(found.value, max(found.error, 1e-3), found.freedom, found.draws)

    return estimate


def _mean_cosine(i: Instance, rng: Rng) -> Estimate:
    """Mean cosine of the pairs in a batch."""
    images, n = _images(), i["n"]
    found = []
    for _ in range(i["batches"]):
        batch = images[rng.choice(len(images), n, replace=False)].astype(np.float64)
        mean = (batch / np.linalg.norm(batch, axis=1, keepdims=True)).mean(axis=0)
        found.append(float(mean @ mean * n - 1) / (n - 1))
    return Estimate.of(found)


CLAIMS = (
    empirical(
        "001/tab-C.1:full-rank",
        equal(Sampled(_of_data("gram")), lambda i: _TABLE[i["n"]]),
        {"batches": _batches(16, 64, 128, 32)},
        counts=(3, 4),
        resolution=0.02,
    ),
    empirical(
        "001/tab-C.1:large",
        equal(Sampled(_of_data("gram")), lambda i: _TABLE[i["n"]]),
        {"batches": _batches(256, 512, batches=30)},
        counts=(1, 2),
        resolution=0.04,
    ),
    empirical(
        "001/tab-C.1:cosine",
        equal(Sampled(_mean_cosine), 0.58),
        {"batches": _batches(512, batches=30)},
        counts=(1, 1),
        tolerance=0.02,
        resolution=0.1,
    ),
    empirical(
        "001/tab-C.1:rank",
        equal(
            Sampled(
                _of_data("samples"), _of_data("double"), "other batches, eigenvalues of the Gram matrix in float64"
            ),
            lambda i: _TABLE[i["n"]],
        ),
        {"batches": _batches(256, 512)},
        counts=(1, 2),
        resolution=0.04,
    ),
    empirical(
        "001/tab-C.1:rank#corrected",
        equal(Sampled(_of_data("samples")), lambda i: float(i["n"])),
        {"batches": _batches(256, 512)},
        counts=(1, 2),
        resolution=0.02,
    ),
)
