"""Algorithms as papers print them, for comparison: none of this may release anything.

Noise is that of the papers: drawn by numpy, calibrated by their closed forms, the same on every
entry on and above the diagonal. What reads records without noise has "not_private" in its name.
No gate here has a ledger, so that nothing here can charge one. `boxed_tangent_oja` alone is private
and is given its gate, like every mechanism.
"""
