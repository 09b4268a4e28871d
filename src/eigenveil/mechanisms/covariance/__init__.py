"""Covariance mechanisms."""
