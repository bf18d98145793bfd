"""The score at which each warning is raised, as `python -m benchmarks.warnings fit` finds it on development runs."""

LIMITS: dict[str, float] = {
    "rank-loss": 0.323,
    "growing-logits": 0.406,
    "growing-signal": 0.373,
    "shrinking-signal": 0.12,
    "growing-gradients": 0.5,
    "vanishing-gradients": 0.7,
    "growing-updates": 0.2,
    "growing-weights": 0.132,
    "growing-biases": 0.819,
    "shrinking-weights": 0.1,
    "input-shift": 0.1,
    "entropy-collapse": 0.2,
    "dead-units": 0.104,
    "saturated-units": 0.1,
    "updates-too-large": 2.0,
    "number-format": -1.0,
    "layer-stopped": 1.57,
}
