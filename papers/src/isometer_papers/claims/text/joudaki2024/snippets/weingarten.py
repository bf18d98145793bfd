# eq. C.25 for E W_11^2 W_22^2: with Delta_sigma twice every tau counts; E_1 = (d + 1)/(d (d + 2)(d - 1)) is right
from fractions import Fraction

d = 2
unit = Fraction(1, d * (d + 2) * (d - 1))
same, other = (d + 1) * unit, -unit  # Wg of coset types [1, 1] and [2]
printed = same + 2 * other  # sigma = {12}{34}, tau any of the three pairings
print("printed:", printed, "with Delta_tau:", same, "and E cos^4 =", Fraction(3, 8))
assert same == Fraction(3, 8) != printed
