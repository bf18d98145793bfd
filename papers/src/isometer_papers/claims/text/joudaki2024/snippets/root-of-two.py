# eq. C.130: sqrt(2x) at x = sqrt(2 d psi) is larger than 2 sqrt(d psi), so that C.130 does not follow from it
import numpy as np

for dpsi in (0.001, 0.01, 1 / 16):
    x = np.sqrt(2 * dpsi)
    print(
        "d psi =",
        dpsi,
        "sqrt(2x) =",
        np.sqrt(2 * x),
        "sqrt(2) x =",
        np.sqrt(2) * x,
        "2 sqrt(d psi) =",
        2 * np.sqrt(dpsi),
    )
    assert np.sqrt(2 * x) > 1.6 * 2 * np.sqrt(dpsi)
    assert -np.log1p(-x) <= np.sqrt(2) * x <= 2 * np.sqrt(dpsi) + 1e-12
assert np.sqrt(2 * x) > 0.8
