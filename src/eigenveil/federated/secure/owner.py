"""An owner in secure sums: ready, then upload, each once for every step.

What a server can do to an owner: it is not trusted. It can ask for any centre and radius, and what
that costs is agreed. It can show any roll: the owner checks every signature on it, its own key and
the quorum, and answers one roll in a step. It can show different rolls to different owners: their
pads then do not cancel. It can repeat itself, and gets the same bytes. Of a failure it learns a
`Code`. Proof: docs/proofs/secure_sums.md.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated.answers import Kept
from eigenveil.federated.codes import Code, ProtocolError
from eigenveil.federated.messages import decode, encode
from eigenveil.federated.owner import LOG, Answerer
from eigenveil.federated.secure.agreement import SecureAgreement, Step
from eigenveil.federated.secure.masks import Context, masked, pair_keys
from eigenveil.federated.secure.messages import (
    Agreed,
    Ready,
    Roll,
    SumInvitation,
    SumQuestion,
    Upload,
    digest,
)
from eigenveil.federated.secure.sums import Sums
from eigenveil.messages import Face
from eigenveil.numerics.random import SimulationSource, SystemSource
from eigenveil.planning.bounds import OnInvalid, OnMissing
from eigenveil.privacy.ledger import Ledger

_UNSIGNED = "0" * 128


class SecureOwner(Answerer):
    """Answers the questions of a server that sums.

    Parameters
    ----------
    agreement : SecureAgreement
        What the owner has agreed on, with keys that it has compared.
    name : str
        Which of the owners it is.
    rows : path, array, frame or RowSource
        The records; read again in every step.
    key : Ed25519PrivateKey
        Its own, made for this purpose alone.
    ledger, folder, log, face
        As in `Answerer`; the folder keeps the keys of open steps too.
    signature : str, optional
        Under the agreement, as `eigenveil federate agree` made it; made here by default.
    on_invalid, on_missing
        As in `PrivatePCA`.
    random_state : int, optional
        Seed of a simulation, which protects nobody.

    """

    def __init__(
        self,
        agreement: SecureAgreement,
        name: str,
        rows: Any,
        key: Ed25519PrivateKey,
        ledger: Ledger | None = None,
        folder: str | Path | None = None,
        *,
        signature: str | None = None,
        on_invalid: OnInvalid = "raise",
        on_missing: OnMissing = "invalid",
        random_state: int | None = None,
        log: Callable[[str], None] = LOG.warning,
        face: Face = "python",
    ) -> None:
        if agreement.simulated != (random_state is not None) or agreement.simulated != (
            ledger is None
        ):
            raise InvalidParameterError(
                "an owner has a ledger, a simulation has none: give a ledger, or a random_state "
                "where the agreement says simulated"
            )
        super().__init__(agreement.federation, name, ledger, folder, log, face)
        if name not in agreement.owners:
            raise InvalidParameterError(f"the agreement knows no owner {name!r}: use its names")
        if key.public_key().public_bytes_raw() != agreement.key(name):
            raise InvalidParameterError(
                f"this is not the key that the agreement has for {name}: give that one, or agree "
                "anew"
            )
        self.agreement, self.name = agreement, name
        self._key = key
        self._signature = agreement.agreed(name).sign(key) if signature is None else signature
        try:
            agreement.agreed(name).check(self._signature, agreement.key(name))
        except ProtocolError:
            raise InvalidParameterError(
                f"{name} has signed another agreement: compare this one, then sign it with "
                "eigenveil federate agree"
            ) from None
        noise = SystemSource() if random_state is None else SimulationSource(random_state)
        self._sums = Sums(
            agreement, name, rows, ledger, noise, on_invalid=on_invalid, on_missing=on_missing
        )
        self._answers = self._stored(agreement=agreement.digest.hex(), owner=name)

    def _answer(self, question: bytes) -> bytes:
        asked: Any = decode(question, SumInvitation, SumQuestion, Roll)
        if asked.federation != self.agreement.federation:
            raise ProtocolError(Code.FEDERATION)
        if asked.agreement != self.agreement.digest.hex():
            raise ProtocolError(Code.AGREEMENT)
        if isinstance(asked, SumInvitation):
            self._sums.check()
            return encode(self._agreed())
        if asked.step >= len(self.agreement.steps):
            raise ProtocolError(Code.OTHER_QUESTION)
        step = self.agreement.steps[asked.step]
        with self._answers.opened():
            if isinstance(asked, SumQuestion):
                return self._ready(step, asked, question)
            return self._upload(step, asked, question)

    def _agreed(self) -> Agreed:
        return Agreed(
            federation=self.agreement.federation,
            owner=self.name,
            agreement=self.agreement.digest.hex(),
            signature=self._signature,
        )

    def _ready(self, step: Step, asked: SumQuestion, question: bytes) -> bytes:
        """Send a fresh key for this question; a second question in the step is refused."""
        if asked.centre.shape != (self.agreement.n_columns,):
            raise ProtocolError(Code.SHAPE)
        name = f"ready-{step.name}"
        kept = self._known(name, question)
        if kept is not None and kept.answer is not None:
            return kept.answer
        if self._sums.charged(step) is not None:
            raise ProtocolError(Code.INTERRUPTED)  # an old folder: this step was answered
        self._sums.look(step, asked)
        secret = X25519PrivateKey.generate()
        self._answers.hide(step.name, secret.private_bytes_raw())
        body = secret.public_key().public_bytes_raw()
        unsigned = Ready(
            federation=self.agreement.federation,
            owner=self.name,
            agreement=self.agreement.digest.hex(),
            step=step.number,
            question=digest(question).hex(),
            key=body.hex(),
            signature=_UNSIGNED,
        )
        ready = replace(unsigned, signature=unsigned.statement.sign(self._key))
        answer = encode(ready)
        notes = {"question": question.hex(), "key": body.hex()}
        self._answers.keep(name, digest(question).hex(), answer, notes)
        return answer

    def _upload(self, step: Step, asked: Roll, roll: bytes) -> bytes:
        """Charge, draw and mask, for one roll; the same roll gets the same bytes."""
        name = f"upload-{step.name}"
        kept = self._known(name, roll)
        if kept is not None and kept.answer is not None:
            self._answers.erase(step.name)  # where the last process died before it did
            return kept.answer
        if self._sums.charged(step) is not None or (kept is not None and self._ledger is None):
            raise ProtocolError(Code.INTERRUPTED)  # for what came of that, nothing is known
        ready = self._answers.find(f"ready-{step.name}")
        secret = self._answers.hidden(step.name)
        if ready is None or secret is None:
            raise ProtocolError(Code.OTHER_QUESTION)
        question = bytes.fromhex(ready.notes["question"])
        public = self._checked(step, asked, ready)
        context = Context(
            agreement=self.agreement.digest,
            step=step.number,
            question=digest(question),
            roll=digest(roll),
        )
        # Before anything is charged: a key on the roll may be none.
        keys = pair_keys(self.name, X25519PrivateKey.from_private_bytes(secret), public, context)
        self._answers.begin(name, digest(roll).hex())
        try:
            values = self._sums.share(step, decode(question, SumQuestion))
        except Exception as error:
            answer = encode(self._refusal(error))
            if self._ledger is not None and self._sums.charged(step) is None:
                self._answers.forget(name)  # nothing was charged: it may be asked again
                return answer
        else:
            answer = encode(self._signed(step, context, masked(values, self.name, keys)))
        self._answers.keep(name, digest(roll).hex(), answer, {})
        self._answers.erase(step.name)
        return answer

    def _known(self, name: str, message: bytes) -> Kept | None:
        """Return what is known of a round, unless it was another question."""
        kept = self._answers.find(name)
        if kept is not None and kept.question != digest(message).hex():
            raise ProtocolError(Code.OTHER_QUESTION)
        return kept

    def _checked(self, step: Step, asked: Roll, own: Kept) -> dict[str, bytes]:
        """Return the keys on a roll, every one of which its owner has signed for this question."""
        members = asked.ready()
        for member in members:
            if member.owner not in self.agreement.owners:
                raise ProtocolError(Code.ROLL)
            same = (
                member.federation == self.agreement.federation
                and member.agreement == self.agreement.digest.hex()
                and member.step == step.number
                and member.question == own.question
            )
            if not same:
                raise ProtocolError(Code.ROLL)
            member.statement.check(member.signature, self.agreement.key(member.owner))
        keys = {member.owner: bytes.fromhex(member.key) for member in members}
        if keys.get(self.name) != bytes.fromhex(own.notes["key"]):
            raise ProtocolError(Code.ROLL)
        if len(keys) < self.agreement.quorum:
            raise ProtocolError(Code.ROLL)
        return keys

    def _signed(self, step: Step, context: Context, words: Any) -> Upload:
        unsigned = Upload(
            federation=self.agreement.federation,
            owner=self.name,
            agreement=context.agreement.hex(),
            step=step.number,
            question=context.question.hex(),
            roll=context.roll.hex(),
            signature=_UNSIGNED,
            masked=words,
        )
        return replace(unsigned, signature=unsigned.statement.sign(self._key))
