"""Digests of seeded fits: a change of structure must not change a single bit of a release."""
