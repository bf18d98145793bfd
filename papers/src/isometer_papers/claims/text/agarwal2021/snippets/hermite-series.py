# facts 3 and 4, C.4: with a_i = E sigma h_i and the probabilist's h_2 = u^2 - 1 the coefficient is a_i^2/i!
import numpy as np

x, w = np.polynomial.hermite_e.hermegauss(20)
w = w / w.sum()
sigma = (x**2 - 1) / np.sqrt(2) + x
total, squares = w @ sigma**2, [(w @ (sigma * h)) ** 2 for h in (x**0, x, x**2 - 1)]
print("E sigma^2 =", total, "and the sum of a_i^2 is", sum(squares))
print("mu = 0.5, and by C.4 it is", 1 - squares[1] / (squares[1] + squares[2]))
assert sum(squares) > total + 0.9
