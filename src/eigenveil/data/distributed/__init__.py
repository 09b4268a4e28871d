"""Rows that lie in parts on other machines, which answer sums over them."""
