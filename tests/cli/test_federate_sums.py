"""``eigenveil federate keys sums|init|agree``, files of secure sums, and totals recomputed."""

import json

import numpy as np
import pytest

from eigenveil.cli.federate_status import standing
from eigenveil.exceptions import EigenveilError
from eigenveil.federated import Event, Happening, Journal, read_agreement, read_client, read_server
from eigenveil.federated.secure import SecureAgreement
from eigenveil.privacy import Ledger
from eigenveil.release import Release
from eigenveil.storage import JOURNAL
from tests.cli.conftest import fails, invoke
from tests.federated.secure.parties import Server, agreement, simulated, tables

NAMES = ("east", "north", "west")
SERVER = """\
[federation]
name = "trial"
n_columns = 2
components = 1
quorum = 3
{more}
[server]
address = "127.0.0.1:0"
folder = "journal"
output = "release"

[secure]
honest = 2
epsilon = 1.0
delta = 1e-5
{secure}
"""
MEMBER = """
[owners.{name}]
signing_key = "{name}.sums.pub"
records = 50
{owner}
"""
CLIENT = """\
[federation]
server = "127.0.0.1:9"

[secure]
agreement = "agreement.json"
key = "{name}.sums"
agreed = "{name}.agreed"

[owner]
name = "{name}"
data = "{name}.npy"
ledger = "{name}.ledger"
folder = "{name}"
{owner}
"""


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name in NAMES:
        made = invoke("federate", "keys", "sums", name, "-o", folder)
        assert made.exit_code == 0, made.output
        assert "PRIVATE" in made.stdout
    return folder


@pytest.fixture
def place(keys, tmp_path):
    for file in keys.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
        (tmp_path / file.name).chmod(0o600)
    return tmp_path


def write(place, more="", secure="", owner=""):
    text = SERVER.format(more=more, secure=secure)
    text += "".join(MEMBER.format(name=name, owner=owner) for name in NAMES)
    (place / "server.toml").write_text(text)
    return place / "server.toml"


def agreed_by_all(place):
    made = invoke("federate", "agreement", write(place), "-o", place / "agreement.json")
    assert made.exit_code == 0, made.output
    found = read_agreement(place / "agreement.json")
    for name in NAMES:
        word = ["--key", place / f"{name}.sums", "--fingerprint", found.fingerprint]
        done = invoke("federate", "agree", place / "agreement.json", *word)
        assert done.exit_code == 0, done.output
    return found


def test_from_keys_to_signed_words(place):
    found = agreed_by_all(place)
    assert isinstance(read_server(place / "server.toml", insecure=True).agreement, SecureAgreement)
    for name in NAMES:
        (place / f"{name}.toml").write_text(CLIENT.format(name=name, owner=""))
        chosen = read_client(place / f"{name}.toml", insecure=True)
        assert chosen.agreement == found
        found.agreed(name).check(chosen.signature, found.key(name))


def test_without_a_fingerprint_an_agreement_is_shown_and_not_signed(place):
    invoke("federate", "agreement", write(place), "-o", place / "agreement.json")
    shown = invoke("federate", "agree", place / "agreement.json", "--key", place / "east.sums")
    assert shown.exit_code == 0
    found = read_agreement(place / "agreement.json")
    assert f"fingerprint  {found.fingerprint}" in shown.stdout
    assert "if 2 owners are honest (sure if at most 1 of 3 collude)" in shown.stdout
    assert "with its own alone epsilon = " in shown.stdout
    assert "not signed" in shown.stderr
    assert not (place / "east.agreed").exists()


def test_mistakes_in_agreeing_are_one_line(place):
    invoke("federate", "agreement", write(place), "-o", place / "agreement.json")
    file, key = place / "agreement.json", ["--key", place / "east.sums"]
    agree = ["federate", "agree", file]
    assert "not the agreement" in fails(2, *agree, *key, "--fingerprint", "0" * 64)
    assert "at least 16" in fails(2, *agree, *key, "--fingerprint", "abcd")
    other = place / "other"
    invoke("federate", "keys", "sums", "east", "-o", other)
    assert "none of the keys" in fails(2, *agree, "--key", other / "east.sums")
    assert "no readable agreement" in fails(3, "federate", "agree", place / "none", *key)
    file.write_bytes(file.read_bytes().replace(b'"honest": 2', b'"honest": 3'))
    assert "altered" in fails(3, *agree, *key)
    assert "new file" in fails(2, "federate", "agreement", place / "server.toml", "-o", file)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"more": 'weights = "equal"'}, "secure sums do not use"),
        ({"secure": "colour = 1"}, "unknown key 'colour' in [secure]"),
        ({"more": 'variance = "all"'}, "variance must be 'total' or 'within'"),
        ({"secure": "bounds = { a = [0, 1] }"}, "give bounds for every column by its name"),
        ({"owner": "epsilon = 3"}, "epsilon in [owners.east] has no use in secure sums"),
        ({"owner": 'mechanism = "tangent"'}, "mechanism in [owners.east] has no use"),
        ({"more": 'kind = "covariance"\nvariance = "within"'}, "leave out variance = 'within'"),
    ],
)
def test_a_server_s_file_with_a_mistake_names_it(place, change, words):
    said = fails(2, "federate", "agreement", write(place, **change), "-o", place / "agreement.json")
    assert words in said
    assert "server.toml" in said


def test_two_owners_and_owners_without_keys_are_refused(place):
    text = write(place).read_text()
    (place / "server.toml").write_text(text.partition("[owners.west]")[0])
    init = ["federate", "agreement", place / "server.toml", "-o", place / "a"]
    assert "three owners" in fails(2, *init)
    (place / "server.toml").write_text(text.replace('signing_key = "east.sums.pub"\n', ""))
    assert "federate keys sums" in fails(2, *init)
    (place / "server.toml").write_text(text.partition("[secure]")[0] + text.partition("1e-5")[2])
    assert "secure sums: add a section [secure]" in fails(2, *init)


def test_the_total_needs_secure_sums(place):
    text = write(place, more='variance = "total"').read_text()
    others = "[owners.east]\n[owners.west]\n[owners.north]\n"
    (place / "server.toml").write_text(text.partition("[secure]")[0] + others)
    said = fails(2, "federate", "server", place / "server.toml", "--insecure")
    assert "add a section [secure] for the total" in said


def test_another_agreement_than_the_signed_one_is_refused(place):
    agreed_by_all(place)
    (place / "east.toml").write_text(CLIENT.format(name="east", owner=""))
    (place / "agreement.json").unlink()
    write(place, more='variance = "within"')
    invoke("federate", "agreement", place / "server.toml", "-o", place / "agreement.json")
    said = fails(3, "federate", "client", place / "east.toml", "--insecure")
    assert "is not east's word on this agreement" in said


@pytest.mark.parametrize(
    ("owner", "words"),
    [("epsilon = 1", "unknown key 'epsilon'"), ('on_invalid = "drop"', "on_invalid must be")],
)
def test_an_owner_s_file_with_a_mistake_names_it(place, owner, words):
    agreed_by_all(place)
    (place / "east.toml").write_text(CLIENT.format(name="east", owner=owner))
    assert words in fails(2, "federate", "client", place / "east.toml", "--insecure")


def test_an_owner_whose_ledger_is_too_small_is_told_before_it_is_asked(place):
    agreed_by_all(place)
    (place / "east.toml").write_text(CLIENT.format(name="east", owner=""))
    np.save(place / "east.npy", np.ones((50, 2)))
    Ledger.create(place / "east.ledger", epsilon=1.0, delta=1e-5)
    from eigenveil.federated.secure import SecureOwner
    from eigenveil.release import private_key

    chosen = read_client(place / "east.toml", insecure=True)
    said = []
    owner = SecureOwner(
        chosen.agreement,
        "east",
        chosen.data,
        private_key(chosen.signing_key),
        Ledger(chosen.ledger),
        chosen.folder,
        signature=chosen.signature,
        log=said.append,
    )
    with pytest.raises(EigenveilError, match="which cost a little more than one"):
        owner._sums.check()


# Totals recomputed


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    folder = tmp_path_factory.mktemp("released")
    rows = tables(n=200)
    agreed = agreement(rows, variance="within")
    server = Server(agreed, simulated(agreed, rows))
    server.journal = Journal(folder / JOURNAL)
    release = server.run()
    release.save(folder / "release")
    server.journal.close()
    return folder


def test_totals_are_recomputed_from_signed_uploads(released):
    done = invoke("verify", released / "release", "--journal", released)
    assert done.exit_code == 0, done.output
    assert "totals       checked: 4 signed uploads make this release" in done.stdout


def _changed(released, tmp_path, change):
    with Journal(tmp_path / JOURNAL) as journal:
        for event in Journal.read(released / JOURNAL):
            for kept in change(event):
                journal.note(kept)
    return tmp_path / JOURNAL


def _one_lost(event):
    lost = event.round.startswith("upload") and event.owner == "west"
    return [] if lost and event.happening is Happening.ANSWERED else [event]


def _one_altered(event):
    if event.round.startswith("upload") and event.happening is Happening.ANSWERED:
        data = bytearray(event.data)
        data[-1] ^= 1
        return [
            Event(happening=event.happening, round=event.round, owner=event.owner, data=bytes(data))
        ]
    return [event]


@pytest.mark.parametrize("change", [_one_lost, _one_altered])
def test_a_journal_without_all_signed_uploads_proves_nothing(released, tmp_path, change):
    journal = _changed(released, tmp_path, change)
    done = invoke("verify", released / "release", "--journal", journal)
    assert done.exit_code == 5
    assert "no complete set of signed uploads" in done.stderr


def test_a_release_that_uploads_do_not_make_is_found_out(released, tmp_path):
    honest = Release.load(released / "release")
    arrays = {**honest.arrays, "mean": honest.arrays["mean"] + 0.1}
    forged = Release(
        kind=honest.kind,
        mechanism=honest.mechanism,
        guarantee=honest.guarantee,
        settings=honest.settings,
        arrays=arrays,
        owners=honest.owners,
    )
    forged.save(tmp_path / "forged")
    assert invoke("verify", tmp_path / "forged").exit_code == 0
    done = invoke("verify", tmp_path / "forged", "--journal", released)
    assert done.exit_code == 5
    assert "not what the signed uploads make" in done.stderr


def test_who_is_waited_for_is_shown(released, tmp_path):
    state = standing(Journal.read(released / JOURNAL))
    assert state["waiting"] == []
    events = []
    for event in Journal.read(released / JOURNAL):
        if event.happening is Happening.CLOSED and event.round.startswith("upload"):
            break
        if event.owner != "west" or not event.round.startswith("upload"):
            events.append(event)
    assert standing(events)["waiting"] == ["west"]
    journal = tmp_path / JOURNAL
    with Journal(journal) as written:
        for event in events:
            written.note(event)
    shown = invoke("federate", "status", tmp_path)
    assert shown.exit_code == 0, shown.output
    assert "waiting for  west" in shown.stdout
    assert json.loads(invoke("federate", "status", tmp_path, "--json").stdout)["round"] == (
        "upload-0-pairs"
    )
