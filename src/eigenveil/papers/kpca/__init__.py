"""Düngler, Sanyal [kPCA]: adaptive private k-PCA."""
