# §7 speaks of learning rates of the order of 1e-5 for NormReLU; I.3 lists 0.0009 for depths 32 and 64
import math

listed, told = 0.0009, 1e-5
print("listed over told:", listed / told, "; powers of ten:", math.log10(listed / told))
assert listed / told > 50
