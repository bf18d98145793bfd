# proof of Lemma 57: n = 3, x_1·x_i = ½ = δ and w·x_1 = 0: |w·x_i| > √δ/4n has a smaller probability than 1 − 1/8n
import math

n, delta = 3, 0.5
deviation = math.sqrt(1 - (1 - delta) ** 2)
probability = 1 - math.erf(math.sqrt(delta) / (4 * n) / deviation / math.sqrt(2))
print("probability:", probability, "; 1 − 1/8n =", 1 - 1 / (8 * n))
assert probability < 1 - 1 / (8 * n) - 0.01
