"""Components and covariances of tables whose owners never pool them."""

from eigenveil.doors import lazy_names

_HOMES = {
    "aggregate": "assembled chance in_common leading_basis reliability",
    "agreement": "Agreement Limits",
    "answers": "Answers Kept",
    "codes": "Code ProtocolError",
    "configuration": "read_agreement read_client read_server",
    "coordinator": "Coordinator Transport",
    "flower.app": "GridTransport client server",
    "flower.client": "serve",
    "flower.envelope": "FAREWELL QUESTION Sealed chain content held opened",
    "flower.fleet": "Fleet fleet_app",
    "flower.keys": "host_and_port make_certificate make_node_key node_key",
    "flower.server": "FlowerTransport superlink",
    "journal": "Event Happening Journal",
    "messages": (
        "BasisAnswer BasisQuestion Declaration Invitation Message Refusal ValuesAnswer "
        "ValuesQuestion Words check_name columns_digest decode encode largest_size "
        "orthonormal"
    ),
    "owner": "Owner",
    "projected_moment": "ProjectedMoment",
    "records": "Records",
    "result": "promised",
    "settings": "OwnerSettings",
    "simulation": "Answering InProcess simulate",
    "toml": "built",
    "weights": "MECHANISMS",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
