"""
What stands above the noise
===========================

Released eigenvalues beside the level that noise alone exceeds about once in a hundred releases,
and the heaviest columns of the first component.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from eigenveil import PrivatePCA
from eigenveil.report import LoadingsDisplay, ScreeDisplay

pca = PrivatePCA(8, epsilon=1.0, delta=1e-6).fit(load_digits(as_frame=True).data)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
ScreeDisplay.from_estimator(pca, ax=axes[0])
LoadingsDisplay.from_estimator(pca, component=0, ax=axes[1])
plt.show()
