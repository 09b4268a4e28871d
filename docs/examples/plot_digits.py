"""
Components of images
====================

The first eight components of handwritten digits, private at epsilon = 1, drawn as images.
Frames of components that do not stand out from the noise are dashed.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from eigenveil import PrivatePCA

pca = PrivatePCA(8, epsilon=1.0, delta=1e-6).fit(load_digits().data)
figure, axes = plt.subplots(2, 4, figsize=(7, 4), layout="constrained")
for j, axis in enumerate(axes.flat):
    axis.imshow(pca.components_[j].reshape(8, 8), cmap="RdBu", vmin=-0.4, vmax=0.4)
    axis.set_title(f"reproducibility {pca.reproducibility_[j]:.2f}", fontsize=9)
    axis.set(xticks=[], yticks=[])
    for side in axis.spines.values():
        side.set_linestyle("-" if pca.distinguishable_[j] else "--")
