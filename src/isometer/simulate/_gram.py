"""One random linear layer `Z = A Wᵀ`, forward and backward: without W where the law allows it.

**Forward.** For a rotation-invariant law take `Aᵀ = Q R` (Q: d_in × k, k = min(n, d_in)). Then `G = (W Q)ᵀ` is a
Gaussian matrix, or the first d_out rows of a Haar frame of k vectors in dimension D = max(d_in, d_out), and `Z = Rᵀ G`
has the law of `A Wᵀ`: O(d n²) work and d n random numbers instead of O(d² n) and d². Householder QR is backward stable
sample by sample for batches of any rank: the law is that of a batch within rounding of A, just as the rounded product
`A Wᵀ` is. A Cholesky factor of `A Aᵀ` fails where that is singular, and the root of `A Aᵀ` loses what is below `√ε` of
the largest singular value; at n = 10 neither is faster.

**Backward.** `δA = δZ W = δZ Gᵀ Qᵀ + δZ W (I − Q Qᵀ)`, where `W (I − Q Qᵀ)` has to be drawn given `W Q`:

- Gaussian weights: independent of W Q. `δZ W` with a fresh W has the law of `R_δᵀ N`, `δZᵀ = Q_δ R_δ`, N Gaussian; its
  part in the complement of Q is kept.
- Haar weights: let F (D × k) be the whole frame, `δZ` padded with zeros to width D, and `P = δZ (I − F Fᵀ)`, what the
  frame has not used up. The other columns of W are a Haar frame of d_in − k vectors in the complement of F, which has
  dimension D − k. So `δZ W (I − Q Qᵀ) = R_Pᵀ U`, `Pᵀ = Q_P R_P`, where the rows of U are the leading parts of a Haar
  frame of as many vectors as δZ has rows, in D − k dimensions, d_in − k of them those orthogonal to Q: project Gaussian
  rows off Q, append D − d_in further Gaussian columns, orthonormalise, keep the first d_in. For d_out ≤ d_in, where
  `W Wᵀ = 1`, this gives `δA δAᵀ = δZ δZᵀ` exactly.

All cotangents of a run are rows of one δZ, hence see one W. Where there is no room for this (n ≥ d_in, or frames that
would not fit) W is drawn in full.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from isometer.simulate._streams import RandomNumbers
from isometer.simulate._weights import draw_weights, haar_frame


@dataclass(frozen=True)
class Product:
    """What one linear layer leaves for the backward pass.

    Either `weights` (slots, d_out, d_in) is there, or `basis` Q with `mixed` G (slots, k, d_out), and for Haar weights
    the `frame` F. `factor` L (slots, n, k) has `L Lᵀ = A Aᵀ`. All without `scale`, the factor of the unit weights.
    """

    scale: float
    factor: torch.Tensor
    weights: torch.Tensor | None = None
    basis: torch.Tensor | None = None
    mixed: torch.Tensor | None = None
    frame: torch.Tensor | None = None

    def backward(self, cotangent: torch.Tensor, noise: RandomNumbers) -> torch.Tensor:
        """`δZ W` for the rows of `cotangent` (slots, rows, d_out), as (slots, rows, d_in)."""
        if self.weights is not None:
            return (cotangent * self.scale) @ self.weights
        assert self.basis is not None
        assert self.mixed is not None
        known = cotangent @ self.mixed.mT  # (slots, rows, k): the part in the span of Q
        fan_in, rows, fan_out = self.basis.shape[-2], cotangent.shape[-2], cotangent.shape[-1]
        if self.frame is None:
            # R_δᵀ N has the same law as δZ W and takes rows · d_in normals instead of d_out · d_in
            if rows < fan_out:
                fresh = triangle(cotangent).mT @ noise.take(rows, fan_in)
            else:
                fresh = cotangent @ noise.take(fan_out, fan_in)
            known = known - fresh @ self.basis  # the result is then δZ Gᵀ Qᵀ + fresh (I − Q Qᵀ)
        else:
            fresh = self._haar_complement(cotangent, noise, fan_in, rows)
        return torch.baddbmm(fresh, known, self.basis.mT) * self.scale

    def _haar_complement(self, cotangent: torch.Tensor, noise: RandomNumbers, fan_in: int, rows: int) -> torch.Tensor:
        frame, basis = self.frame, self.basis
        assert frame is not None
        assert basis is not None
        larger = frame.shape[-2]
        left = torch.nn.functional.pad(cotangent, (0, larger - cotangent.shape[-1]))
        left = left - (left @ frame) @ frame.mT
        normals = noise.take(rows, larger)
        inside = normals[..., :fan_in]
        inside = inside - (inside @ basis) @ basis.mT
        # twice is enough: the second pass removes what rounding put back
        inside = inside - (inside @ basis) @ basis.mT
        vectors = haar_frame(torch.cat([inside, normals[..., fan_in:]], -1).mT)  # (slots, D, rows)
        return torch.matmul(triangle(left).mT, vectors[..., :fan_in, :].mT)


def triangle(batch: torch.Tensor) -> torch.Tensor:
    """R of `batchᵀ = Q R` for `(…, n, d)`, upper triangular `(…, min(n, d), n)` with `Rᵀ R = batch batchᵀ`."""
    upper: torch.Tensor = torch.linalg.qr(batch.mT, mode="r").R
    return upper


def multiply_dense(
    law: str, scale: float, a: torch.Tensor, fan_out: int, streams: RandomNumbers
) -> tuple[torch.Tensor, Product]:
    """`A Wᵀ` with W drawn in full.

    Args:
        law: the weight law.
        scale: factor of the unit weights.
        a: `(slots, n, d_in)`.
        fan_out: d_out.
        streams: the random numbers.

    Returns:
        `(slots, n, d_out)` and the record for the backward pass.

    Example:
        >>> from isometer.simulate import Streams
        >>> streams = Streams(0, [0], 1, "weights", "normal", 6, torch.zeros((), dtype=torch.float64))
        >>> z, product = multiply_dense("gaussian", 1.0, torch.eye(3, dtype=torch.float64)[None], 2, streams)
        >>> torch.equal(z, product.weights.mT)
        True
    """
    weights = draw_weights(law, streams, fan_out, a.shape[-1])
    # the weights stay unit: the record carries the factor
    return (a * scale) @ weights.mT, Product(scale, a, weights=weights)


def multiply_gram(
    law: str,
    scale: float,
    a: torch.Tensor,
    fan_out: int,
    streams: RandomNumbers,
    *,
    r: torch.Tensor | None = None,
    q: torch.Tensor | None = None,
    rows: int | None = None,
) -> tuple[torch.Tensor, Product]:
    """`A Wᵀ` in law, for a rotation-invariant law, without W if there are fewer samples than features.

    Args:
        law: one of `isometer.simulate._weights.GRAM_LAWS`.
        scale: factor of the unit weights.
        a: `(slots, n, d_in)`.
        fan_out: d_out.
        streams: the random numbers.
        r: R of `Aᵀ = Q R`, if known.
        q: Q, if known.
        rows: the number of cotangent rows a backward pass will bring, None if there will be none.

    Returns:
        `(slots, n, d_out)` and the record for the backward pass.

    Example:
        >>> from isometer.simulate import Streams
        >>> streams = Streams(0, [0], 1, "weights", "normal", 20, torch.zeros((), dtype=torch.float64))
        >>> a = torch.tensor([[[3.0, 4.0, 0.0, 0.0, 0.0]]], dtype=torch.float64)
        >>> z, _ = multiply_gram("orthogonal", 1.0, a, 5, streams)
        >>> round(float(z.norm()), 12)
        5.0

    Implements: 001/eq-A.7, 003/eq-12, 003/net-bn-linear (fast step), 000/net-rc-relu (fast step).
    """
    samples, fan_in = a.shape[-2:]
    if not uses_frames(law, samples, fan_in, fan_out, rows):
        return multiply_dense(law, scale, a, fan_out, streams)
    if r is None or (rows is not None and q is None):
        # Q is needed on the way back only
        q, r = torch.linalg.qr(a.mT) if rows is not None else (None, triangle(a))
    frame = None
    if law == "orthogonal":
        frame = haar_frame(streams.take(max(fan_in, fan_out), samples))
        mixed = frame[..., :fan_out, :].mT
    else:
        mixed = streams.take(samples, fan_out)
    return (r.mT * scale) @ mixed, Product(scale, r.mT, basis=q, mixed=mixed, frame=frame)


def uses_frames(law: str, samples: int, fan_in: int, fan_out: int, rows: int | None) -> bool:
    """Whether a layer is sampled without W: fewer samples than features, and for Haar weights room for the frames."""
    if law == "orthogonal":
        # the frames of the batch and of the cotangents are orthogonal to each other in D dimensions;
        # independent of whether a backward pass follows, unless that brings more rows than samples
        return samples + max(samples, rows or 0) <= max(fan_in, fan_out) and samples < fan_in
    return samples < fan_in
