# # Choose an activation for a 500-layer net
#
# Suppose that you want 500 layers without normalisation and without skip connections. Which activation survives that?
# The theory of wide networks answers without building anything, and a simulation checks the answer.
#
# ## Two questions
#
# 1. Two different inputs go in. Are they still different at layer 500? The cosine ρ between them changes at each
#    layer by a fixed function, the [kernel map](../theory/kernels.md) κ.
# 2. A gradient comes back. Does it keep its size? For a wide network its squared norm changes per layer by the factor
#    κ′(1).

from isometer import kernel_map
from isometer.theory import shape_activation

DEPTH = 500
for name in ("relu", "gelu", "tanh", "normalized(relu)"):
    kernel = kernel_map(name)
    cosine = kernel.iterate(0.5, DEPTH).cosine[-1]
    growth = kernel.slope(1.0) ** (DEPTH / 2)
    print(f"{name:18} cosine 0.5 → {cosine:.3f}   gradient × {growth:.1e}")
# → relu               cosine 0.5 → 1.000   gradient × 1.0e+00
# → gelu               cosine 0.5 → 0.760   gradient × 3.6e+07
# → tanh               cosine 0.5 → 0.000   gradient × 5.9e+17
# → normalized(relu)   cosine 0.5 → 0.000   gradient × 4.0e+41

# None of them works.
#
# - **relu**: all inputs become parallel. The network cannot distinguish them.
# - **gelu**: every pair of inputs ends at the same cosine, 0.76, and gradients explode on the way back.
# - **tanh**, and ReLU shifted to mean zero: every pair becomes orthogonal. That is rich, but forgets which inputs
#   were alike, and gradients explode faster still.
#
# Each is too non-linear to be applied 500 times.
#
# ## Shape it
#
# Scale tanh's input down and it becomes nearly linear; a nearly linear layer changes little, and 500 of them can
# change as much as a few ordinary ones. `shape_activation` finds input and output scales such that the *whole*
# network has a given slope: here κ₅₀₀′(1) = 1.5, so that the gradient's squared norm grows by 1.5 over all 500
# layers.

shaped = shape_activation("tanh", depth=DEPTH, output_slope=1.5)
kernel = kernel_map(shaped.activation)
cosine = kernel.iterate(0.5, DEPTH).cosine[-1]
growth = kernel.slope(1.0) ** (DEPTH / 2)
print(f"input scale {shaped.input_scale:.4f}: cosine 0.5 → {cosine:.3f}, gradient × {growth:.2f}")
# → input scale 0.0403: cosine 0.5 → 0.400, gradient × 1.22
assert 0.3 < cosine < 0.5
assert abs(growth - 1.5**0.5) < 1e-6

# ## Check it at finite width
#
# Theory speaks of infinite width. 500 layers of width 200 are simulated here without drawing one weight matrix; the
# law is still exact. A spec is plain data, so its activation is text: the formula with the four constants that
# were found.

from isometer import Spec  # noqa: E402
from isometer.data import make_batch  # noqa: E402
from isometer.simulate import simulate  # noqa: E402
from isometer.trajectory import summarize  # noqa: E402

a, b, c, d = shaped.input_scale, shaped.input_shift, shaped.output_scale, shaped.output_shift
formula = f"{c!r} * (tanh({a!r} * x + {b!r}) + {d!r})"
batch = make_batch("correlated:0.5", 4, 200, seed=0)
for name, phi in {"relu": "unit(relu)", "shaped tanh": formula}.items():
    spec = Spec(width=200, depth=DEPTH, activation=phi)
    data = simulate(spec, batch, runs=4, metrics=["mean_cosine", "gradient_log_norm"], seed=1)
    mean = summarize(data).sel(statistic="mean")
    cosine = float(mean["mean_cosine"].isel(layer=-1))
    change = float(mean["gradient_log_norm"].isel(layer=1) - mean["gradient_log_norm"].isel(layer=-1))
    print(f"{name:12} cosine {cosine:.2f}, log gradient {change:+.1f}")
# → relu         cosine 1.00, log gradient +0.7
# → shaped tanh  cosine 0.31, log gradient +0.2
assert 0.2 < cosine < 0.6
assert abs(change) < 5

# ## Use it
#
# `isometer.nn.Activation(shaped.activation)` is a torch module. Weights need variance 1/fan_in, biases zero.

import torch  # noqa: E402

from isometer.nn import Activation  # noqa: E402

module = Activation(shaped.activation)
assert torch.isclose(module(torch.tensor(1.0)), torch.tensor(float(shaped.activation(1.0))), atol=1e-6)

# For ReLU's family there is `tailored_leaky_relu`; [isometry and shaping](../theory/isometry.md) says what both do,
# and batch norm with orthogonal weights is another way to great depth.
