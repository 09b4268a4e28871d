"""Figures of releases and ledgers, in the style of scikit-learn displays."""
