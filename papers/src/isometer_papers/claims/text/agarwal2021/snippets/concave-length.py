# proof of Lemma 39: (σ'z)² − σσ'z is not ≥ 0 but ≤ 0; tanh
import numpy as np

z = np.array([-2.0, -0.5, 0.5, 2.0])
value = ((1 - np.tanh(z) ** 2) * z) ** 2 - np.tanh(z) * (1 - np.tanh(z) ** 2) * z
print(value)
assert (value < -0.01).all()
