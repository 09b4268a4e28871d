"""
The price of privacy
====================

How much of the variance within reach private components capture, as the budget grows. Only a
simulation may compare with the truth: ``random_state`` marks it as one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from eigenveil import PrivatePCA

rows = load_digits().data
best = PCA(5).fit(rows).explained_variance_.sum()
epsilons = [0.2, 0.5, 1.0, 2.0, 4.0]


def captured(epsilon, seed):
    """Return the share of the variance within reach that one release captures."""
    pca = PrivatePCA(5, epsilon=epsilon, delta=1e-6, random_state=seed).fit(rows)
    return np.var(rows @ pca.components_.T, axis=0).sum() / best


shares = np.array([[captured(epsilon, seed) for seed in range(5)] for epsilon in epsilons])
plt.figure(figsize=(6, 3.6), layout="constrained")
plt.plot(epsilons, shares.mean(axis=1), "o-")
plt.fill_between(epsilons, shares.min(axis=1), shares.max(axis=1), alpha=0.2)
plt.xscale("log")
plt.xlabel("epsilon, at delta = 1e-6")
plt.ylabel("variance captured, of that within reach")
plt.ylim(0, 1.02)
plt.show()
