"""An owner of tests, and the questions that it is asked."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eigenveil.federated import (
    BasisAnswer,
    BasisQuestion,
    Code,
    Declaration,
    Invitation,
    Owner,
    OwnerSettings,
    ProtocolError,
    ValuesAnswer,
    ValuesQuestion,
    columns_digest,
    decode,
    encode,
)

D, K, N = 8, 2, 1500
RNG = np.random.default_rng(11)
TRUE = np.linalg.qr(RNG.standard_normal((D, K)))[0]
MEAN = 20 * RNG.standard_normal(D)
ROWS = RNG.standard_normal((N, K)) * [6.0, 4.0] @ TRUE.T + RNG.standard_normal((N, D))
ROWS -= ROWS.mean(axis=0)
MOVED = MEAN + ROWS
INSIDE = TRUE.T @ (ROWS.T @ ROWS / N) @ TRUE
ASKED: dict[str, Any] = {
    "federation": "lungs",
    "n_columns": D,
    "n_components": K,
    "n_directions": K,
    "share": 0.8,
    "columns": columns_digest(None),
    "unit": "variances",
}
JOIN, BASIS = encode(Invitation(**ASKED)), encode(BasisQuestion(**ASKED))
VALUES = encode(ValuesQuestion(federation="lungs", basis=TRUE))
SHARES = encode(BasisQuestion(**{**ASKED, "unit": "shares"}))  # will be asked for
SIMULATED = OwnerSettings(
    owner="north", federation="lungs", epsilon=4.0, delta=1e-6, random_state=5
)


# With the noise of the system: nothing is searched for that could not be found.
SETTINGS = replace(SIMULATED, random_state=None, centring="none", row_norm=30.0)


def code_of(answer: bytes) -> Code:
    with pytest.raises(ProtocolError) as caught:
        decode(answer, Declaration, BasisAnswer, ValuesAnswer)
    return caught.value.code


def simulated(
    question: bytes = BASIS, rows: Any = MOVED, **changes: Any
) -> tuple[BasisAnswer, ValuesAnswer]:
    owner = Owner(replace(SIMULATED, **changes), rows)
    if "share" in changes:
        question = encode(replace(decode(question, BasisQuestion), share=changes["share"]))
    return decode(owner.answer(question), BasisAnswer), decode(owner.answer(VALUES), ValuesAnswer)
