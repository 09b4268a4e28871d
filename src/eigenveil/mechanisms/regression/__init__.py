"""Mechanisms for linear regression."""
