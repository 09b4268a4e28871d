"""OwnNoise: the script where each owner adds its own noise; checks of joins and answers."""

from collections.abc import Collection

from eigenveil.federated.agreement import Agreement
from eigenveil.federated.codes import Code, ProtocolError
from eigenveil.federated.messages import (
    BasisAnswer,
    BasisQuestion,
    Declaration,
    Invitation,
    Message,
    ValuesAnswer,
    ValuesQuestion,
    columns_digest,
    decode,
)
from eigenveil.federated.result import (
    Contributions,
    aggregate,
    check_values,
    check_weight,
    combine,
    promised,
)
from eigenveil.federated.script import Heard
from eigenveil.federated.weights import MECHANISMS
from eigenveil.release.artefact import Release


class OwnNoise:
    """Ask for bases, average them, ask for values inside the average."""

    rounds = ("join", "basis", "values")

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement

    def awaited(self, name: str, heard: Heard) -> Collection[str]:
        """Return nobody: who is silent is left out of the round."""
        return ()

    def question(self, name: str, heard: Heard, here: Collection[str]) -> Message:
        """Return what a round asks."""
        agreed = self.agreement
        if name == "values":
            basis = aggregate(agreed, _contributions(heard))
            return ValuesQuestion(federation=agreed.federation, basis=basis)
        kind = Invitation if name == "join" else BasisQuestion
        return kind(
            federation=agreed.federation,
            n_columns=agreed.n_columns,
            n_components=agreed.n_components,
            n_directions=agreed.n_directions,
            share=agreed.share,
            columns=columns_digest(agreed.columns, agreed.scale),
            unit=agreed.unit,
        )

    def among(self, name: str, heard: Heard) -> tuple[str, ...]:
        """Return who answered in the round before."""
        if name == "join":
            return tuple(self.agreement.owners)
        before = self.rounds[self.rounds.index(name) - 1]
        return tuple(heard.answers[before])

    def needed(self, name: str, heard: Heard) -> int:
        """Return the quorum."""
        return self.agreement.quorum

    def join(self, reply: bytes) -> str:
        """Return who declares the numbers that its weights are computed from."""
        declared = decode(reply, Declaration)
        owner = declared.owner
        if declared.federation != self.agreement.federation:
            raise ProtocolError(Code.FEDERATION, owner)
        if owner not in self.agreement.owners:
            raise ProtocolError(Code.UNKNOWN, owner)
        if not self.agreement.owners[owner].allow(declared):
            raise ProtocolError(Code.LIMITS, owner)
        if self.agreement.weights == "predicted" and declared.mechanism not in MECHANISMS:
            raise ProtocolError(Code.MECHANISM, owner)
        check_weight(self.agreement, declared)
        return owner

    def check(self, name: str, owner: str, reply: bytes, heard: Heard) -> None:
        """Raise `ProtocolError` unless an answer is one that the owner may give."""
        d, k = self.agreement.n_columns, self.agreement.n_components
        declared = decode(heard.answers["join"][owner], Declaration)
        answer: BasisAnswer | ValuesAnswer
        if name == "basis":
            answer = decode(reply, BasisAnswer)
            fits = answer.basis.shape == (d, self.agreement.n_directions)
        else:
            answer = decode(reply, ValuesAnswer)
            fits = answer.centre.shape == (k,)
        if not fits:
            raise ProtocolError(Code.SHAPE)
        if (answer.federation, answer.owner) != (declared.federation, owner):
            raise ProtocolError(Code.CONTRADICTION)
        if isinstance(answer, ValuesAnswer):
            check_values(self.agreement, declared, answer)
        guarantee = promised(answer)
        stated = guarantee.budget
        if (stated.epsilon, stated.delta) != (declared.epsilon, declared.delta):
            raise ProtocolError(Code.CONTRADICTION)
        if guarantee.simulated and not self.agreement.simulated:
            raise ProtocolError(Code.CONTRADICTION)

    def release(self, heard: Heard) -> Release:
        """Return the components, or the covariance, of the average."""
        basis = decode(heard.questions["values"], ValuesQuestion).basis
        return combine(self.agreement, _contributions(heard), basis)


def _contributions(heard: Heard) -> Contributions:
    """Return what was heard so far, decoded."""
    told = heard.answers
    return Contributions(
        declarations={o: decode(m, Declaration) for o, m in told["join"].items()},
        bases={o: decode(m, BasisAnswer) for o, m in told["basis"].items()},
        values={o: decode(m, ValuesAnswer) for o, m in told["values"].items()},
        left_out=dict(heard.left_out),
    )
