"""The score at which each warning is raised, as `python -m benchmarks.warnings fit` finds it on development runs."""

LIMITS: dict[str, float] = {
    "rank-loss": 0.7,
    "growing-logits": 0.6,
    "growing-signal": 0.6,
    "growing-gradients": 1.2,
    "entropy-collapse": 0.4,
    "dead-units": 0.4,
    "saturated-units": 0.4,
    "updates-too-large": 2.0,
    "number-format": -0.7,
    "layer-stopped": 1.5,
}
