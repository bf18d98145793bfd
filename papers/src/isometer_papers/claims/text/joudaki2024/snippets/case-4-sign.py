# proof of Theorem 5.11, case 4: 1 - (1 + rho)(1 - c0^2) expands to -rho + c0^2 (1 + rho)
rho, square = 0.5, 1 / 3
left = 1 - (1 + rho) * (1 - square)
print("left:", left, "printed:", 1 - 1 - rho - square * (1 + rho), "next line:", -rho + square * (1 + rho))
assert abs(left - (-rho + square * (1 + rho))) < 1e-12
assert left - (1 - 1 - rho - square * (1 + rho)) > 0.9
