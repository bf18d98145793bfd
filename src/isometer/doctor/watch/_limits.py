"""The score at which each warning is raised: the first of 1, 1.5, 2 and so on a quarter above that of all healthy runs.

`python -m benchmarks.warnings fit` finds them on the first roster. These come from 60 of its 256 networks.
"""

LIMITS: dict[str, float] = {
    "rank-loss": 2.0,
    "growing-logits": 1.5,
    "growing-signal": 2.0,
    "shrinking-signal": 1.0,
    "growing-gradients": 1.5,
    "vanishing-gradients": 1.0,
    "growing-updates": 1.0,
    "growing-weights": 1.5,
    "growing-biases": 3.0,
    "shrinking-weights": 1.5,
    "input-shift": 1.0,
    "entropy-collapse": 1.0,
    "dead-units": 1.0,
    "saturated-units": 1.0,
    "updates-too-large": 2.0,
    "number-format": 1.0,
    "layer-stopped": 1.0,
}
