"""The engine: questions and answers of a federation travel on Flower's Fleet protocol.

The coordinator's process takes the place of Flower's SuperLink, an owner's that of a SuperNode.
Two parts of a stock installation are left out, both because they run code for others:

1. A SuperNode fetches an app from the server and runs it beside the records. Here an owner hands
   the bytes of a question to its own installed code and fetches nothing else (`client`).
2. A SuperLink serves its Control and Runtime interfaces on the port that the owners reach, to
   anybody unless accounts are set up elsewhere: who reaches it registers keys and starts code on
   the server. Here the Fleet interface alone is served, and keys are registered in the process
   that asks the questions (`server`).

`app` is for those who have a stock installation and trust it: there both are as Flower has them.

Nothing of Flower is imported outside this folder; its version is pinned, since most of what is
used here is not promised to last. No telemetry is sent: its callers are not among what is used.
"""

import logging
import warnings

from eigenveil.exceptions import MissingExtraError

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of its command line's library
        import flwr  # noqa: F401
except ImportError:
    raise MissingExtraError(
        "federations run on Flower: pip install 'eigenveil[federated]'"
    ) from None

# What it says of a request quotes the request: nobody else writes on a terminal here.
logging.getLogger("flwr").setLevel(logging.CRITICAL)
