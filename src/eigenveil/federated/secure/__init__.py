"""Sums over owners that the server sees and single contributions that it does not.

Owners add shares of one noise to exact integer sums and mask them with pads that cancel in the
total. Protocol and argument: docs/proofs/secure_sums.md; the noise: docs/proofs/shared_noise.md.
"""
