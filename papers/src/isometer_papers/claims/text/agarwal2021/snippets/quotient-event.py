# proof of Theorem 52: |ρ − σ̂|/(‖x‖‖y‖) > t although neither event on the right happens
distance, lengths, t, epsilon = 0.11, 1.0, 0.1, 0.1
left = distance / lengths > t
right = lengths > (1 + epsilon) ** 2 or distance > t * (1 + epsilon) ** 2
print("left:", left, "; right:", right)
assert left > right
