"""The network spec: one immutable value that describes a random fully connected network.

A layer takes the representation H (samples × features) and applies, **in the order given by `order`**,

- `weights`: `X ↦ X Wᵀ + 1 bᵀ`, W of the law `weights` with `gain`, b from N(0, `bias_variance`);
- `residual`: `X ↦ H + γ X`, H the layer's input, γ from `residual`; γ = ∞ leaves X (no skip);
- `norm`: the normalisation `norm`, nothing if it is None;
- `activation`: `X ↦ φ(α X)`, α from `activation_gain`;

and multiplies the result by `scale`. `order` names `weights`, `norm` and `activation` once each; `residual` may be
named after `weights`, and comes directly after it otherwise. What a layer hands on is layer ℓ of a trajectory; what
enters its activation is the same layer at `"pre"`.

Every recurrence of the papers is a spec, and `recurrence(ID, width=…, depth=…)` builds it:

- 000/def-layer, `F(BN(W X))`: `norm="batch"`. Its parts: `"batch-recenter"` (RC alone), `"batch-rescale"` (RS alone, by
  the root mean square), `"batch-rescale-std"` (RS alone, by the centred σ), None; NL off is `activation="identity"`.
- 001/rec-2.1 and 003/net-bn-linear, `d^{-1/2} BN(W H)`: `norm="batch-unit"`, `scale="1/sqrt(width)"`, identity.
- 001/rec-2.vanilla, `W H`: identity, no norm.
- 001/rec-3.1, `W φ(BN(h))`: `norm="batch"`, `order=("norm", "activation", "weights")`.
- 001/eq-5.11, `φ(norm(W h))`: `norm="layer"` or `"rms"`.
- 001/eq-5.12, `norm(φ(W h))`: the same with `order=("weights", "activation", "norm")`.
- 001/rec-6.3, `BN(W X)` with W orthogonal: `norm="batch-unit"`, `weights="orthogonal"`, identity.
- 001/rec-6.11, `φ(α_ℓ BN(W X))`: the same with tanh or sin and `activation_gain=PowerLaw(layer=-0.4)`.
- 002/eq-rec-vanilla, `H + γ W F(H)`: `order=("activation", "weights", "norm")`, no norm, `residual=γ`.
- 002/eq-5, `BN(H + γ W F(H))`: `order=("activation", "weights", "residual", "norm")`, `norm="batch-rescale"`,
  `weights="uniform"`, `weight_scaling="unit"` (002/def-1), `residual=γ`, ∞ by default.
- 002/init-asym: `weights="asymmetric"`; 002/op-whitening: `norm="whiten"`.
- 003/net-act, `BN(W F(Q))`: `norm="batch-unit"`, `order=("activation", "weights", "norm")`.
- 004/eq-1, `m^{-1/2} σ(W x)`: `weight_scaling="unit"`, `scale="1/sqrt(width)"`.
- 004/eq-3, `m^{-1/2} Π(σ(W x))`: the same with `norm="unit"` after the activation.
"""

import lazy_loader

import isometer.spec._reading  # `Spec(…)` needs to know the kinds of specs, whoever imports it  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
