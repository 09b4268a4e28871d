"""
Which columns go together
=========================

A private correlation matrix of the measurements of a made-up hospital.
"""

from eigenveil import PrivateCovariance, open_rows
from eigenveil.datasets import Patients
from eigenveil.report import CovarianceDisplay

table = Patients()
rows = open_rows(table.measurements[:, :-1])  # without crp, which has a long tail
covariance = PrivateCovariance(epsilon=1.0, delta=1e-6, scale="private", on_missing="centre").fit(
    rows, groups=table.persons
)
CovarianceDisplay.from_estimator(covariance)
