"""What privacy means and costs. Scalars only; no array enters this layer."""

from eigenveil.doors import lazy_names

_HOMES = {
    "account": "Account",
    "accounting": (
        "CURVE_ERROR compose covers delta_of epsilon_of fits for_group gaussian_delta "
        "gaussian_epsilon gaussian_mu native part parts_of rho_of split"
    ),
    "adjacency": "GROUP ROW Adjacency Unit",
    "balance": "Balance rounded_down",
    "budget": "Budget stated",
    "calibrate": "largest noise_scale strength whole_strength",
    "contribution": "Contribution",
    "cost": "ZCDP Approx Composed Cost Gaussian Pure cost_from_dict cost_to_dict",
    "federated_guarantee": "FederatedGuarantee",
    "guarantee": "Guarantee Kind Numerics guarantee_from_dict guarantee_to_dict",
    "ledger": "Ledger",
    "privacy_filters": "LEAK_SHARE Spent admit left used",
    "shared_noise": "SharedNoise",
    "shuffling": "amplified amplified_delta local_epsilon local_mu",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
