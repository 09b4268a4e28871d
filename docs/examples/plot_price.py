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
captured = [
    [
        np.var(rows @ PrivatePCA(5, epsilon=e, delta=1e-6, random_state=s).fit(rows).components_.T, axis=0).sum()
        / best
        for s in range(5)
    ]
    for e in epsilons
]
plt.figure(figsize=(6, 3.6), layout="constrained")
plt.plot(epsilons, np.mean(captured, axis=1), "o-")
plt.fill_between(epsilons, np.min(captured, axis=1), np.max(captured, axis=1), alpha=0.2)
plt.xscale("log")
plt.xlabel("epsilon, at delta = 1e-6")
plt.ylabel("variance captured, of that within reach")
plt.ylim(0, 1.02)
plt.show()
