"""Sums over owners that the server sees and single contributions that it does not.

Owners add shares of one noise to exact integer sums and mask them with pads that cancel in the
total. Protocol and argument: docs/proofs/secure_sums.md; the noise: docs/proofs/shared_noise.md.
"""

from eigenveil.doors import lazy_names

_HOMES = {
    "agreement": "Member SecureAgreement Step",
    "masks": "Context Statement listed masked pad pair_key pair_keys unmasked",
    "messages": "Agreed Ready Roll SumInvitation SumQuestion Upload digest",
    "owner": "SecureOwner",
    "result": "Total asked_next",
    "script": "SumScript total_of",
    "sums": "NoiseShare Sums packed unpacked",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
