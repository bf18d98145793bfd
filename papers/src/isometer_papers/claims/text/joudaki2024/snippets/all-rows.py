# Lemma 3.3, n = 2, ReLU, G_* = I/2: lengths of the samples tell mu-hat from T(mu-hat) at every width
import numpy as np

rng, runs, told = np.random.default_rng(0), 100_000, []
for d in (50, 400, 3200, 10**6):
    s, t = rng.chisquare(d, (2, runs))  # squared lengths of the samples under mu-hat, times 2
    share = 2 * rng.binomial(d, 0.5, runs) / d  # after a layer G = diag(share, 2 - share)/2
    tails = [(abs(D) > np.sqrt(8 * np.log(2) * d)).mean() for D in (s - t, share * s - (2 - share) * t)]
    told.append(tails[1] - tails[0])  # tv is at least this
print("difference of probabilities:", told, "bound n^2 ln(d/n) |G_*^-1|/d at the last d:", 8 * np.log(d / 2) / d)
assert min(told) > 0.15 > 1000 * 8 * np.log(d / 2) / d
