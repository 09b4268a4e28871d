"""Configuration files: what they stand for, and one line about whatever is wrong with one."""

from pathlib import Path

import pytest

from eigenveil.exceptions import EigenveilError, InvalidDataError, InvalidParameterError
from eigenveil.federated import Limits, read_client, read_server
from tests.federated.stubs import agreement

SERVER = """\
[federation]
name = "registry"
columns = ["age", "height", "weight"]
components = 2
scale = [10.0, 20, 15]
kind = "covariance"
quorum = 2
weights = "printed"
most_weight = 0.6
join_seconds = 5

[server]
address = "127.0.0.1:9092"
certificate = "server.pem"
private_key = "/keys/server.key"
folder = "journal"
output = "release"

[owners.east]
key = "east.key.pub"
records = 1200
epsilon = 1.0
delta = 1e-6

[owners.west]
key = "west.key.pub"
"""
CLIENT = """\
[federation]
name = "registry"
server = "host.example:9092"
certificate = "authority.pem"
key = "east.key"

[owner]
name = "east"
data = "table.csv"
columns = ["age", "height", "weight"]
epsilon = 1
delta = 1e-6
share = 0.7
mechanism = "tangent"
ledger = "east.ledger"
folder = "answers"
row_norm = "private"
bounds = { age = [0, 120], height = [40, 250], weight = [2, 300] }
scale = 10
centring = "none"
patience = 30
"""


def written(folder, text):
    path = folder / "federation.toml"
    path.write_text(text, "utf-8")
    return path


def changed(text, old, new):
    assert old in text
    return text.replace(old, new)


def test_a_server_is_read(tmp_path):
    read = read_server(written(tmp_path, SERVER))
    agreed = read.agreement
    assert (agreed.federation, agreed.n_columns, agreed.n_components) == ("registry", 3, 2)
    assert agreed.columns == ("age", "height", "weight")
    assert agreed.scale == (10.0, 20.0, 15.0)
    assert (agreed.kind, agreed.quorum, agreed.weights) == ("covariance", 2, "printed")
    assert (agreed.most_weight, agreed.join_seconds) == (0.6, 5.0)
    assert agreed.owners["east"] == Limits(records=1200, epsilon=1.0, delta=1e-6)
    assert agreed.owners["west"] == Limits()
    assert not agreed.simulated
    assert read.address == "127.0.0.1:9092"
    assert read.journal == tmp_path / "journal" / "journal.sqlite"
    assert read.output == tmp_path / "release"
    assert read.certificate == tmp_path / "server.pem"
    assert read.private_key == Path("/keys/server.key")
    assert read.keys["west"] == tmp_path / "west.key.pub"


def test_an_owner_is_read(tmp_path):
    read = read_client(written(tmp_path, CLIENT))
    settings = read.settings
    assert (settings.owner, settings.federation) == ("east", "registry")
    assert (settings.epsilon, settings.delta, settings.share) == (1.0, 1e-6, 0.7)
    assert (settings.mechanism, settings.row_norm) == ("tangent", "private")
    assert settings.bounds["height"] == (40.0, 250.0)
    assert (settings.scale, settings.centring) == (10.0, "none")
    assert settings.random_state is None
    assert (read.server, read.patience) == ("host.example:9092", 30.0)
    assert read.certificate == tmp_path / "authority.pem"
    assert read.key == tmp_path / "east.key"
    assert (read.data, read.ledger, read.folder) == (
        tmp_path / "table.csv",
        tmp_path / "east.ledger",
        tmp_path / "answers",
    )


def test_one_scale_is_that_of_every_column(tmp_path):
    text = changed(SERVER, "scale = [10.0, 20, 15]", "scale = 3")
    assert read_server(written(tmp_path, text)).agreement.scale == (3.0, 3.0, 3.0)


def test_columns_may_have_no_names(tmp_path):
    text = changed(SERVER, 'columns = ["age", "height", "weight"]', "n_columns = 3")
    agreed = read_server(written(tmp_path, text)).agreement
    assert (agreed.columns, agreed.n_columns) == (None, 3)


def test_without_encryption_no_key_is_needed_or_kept(tmp_path):
    read = read_server(written(tmp_path, SERVER), insecure=True)
    assert (read.certificate, read.private_key, dict(read.keys)) == (None, None, {})
    bare = "\n".join(line for line in SERVER.splitlines() if "key" not in line)
    bare = changed(bare, 'certificate = "server.pem"\n', "")
    assert read_server(written(tmp_path, bare), insecure=True).agreement == read.agreement
    owner = read_client(written(tmp_path, CLIENT), insecure=True)
    assert (owner.certificate, owner.key) == (None, None)


MISTAKES = [
    # Keys that nobody knows, or that are missing.
    (read_server, 'name = "registry"', 'nmae = "registry"', "unknown key 'nmae' in [federation]"),
    (read_server, 'name = "registry"\n', "", "no name in [federation]: add it, text"),
    (read_server, "components = 2\n", "", "no components in [federation]"),
    (read_server, "[server]", "[servers]", "unknown section or key 'servers'"),
    (read_server, "[federation]", "x = 1\n[federation]", "unknown section or key 'x'"),
    (read_server, "records = 1200", "rows = 1200", "unknown key 'rows' in [owners.east]"),
    (read_server, 'certificate = "server.pem"\n', "", "no certificate in [server]"),
    (read_server, 'key = "west.key.pub"\n', "", "no key in [owners.west]"),
    (read_server, 'output = "release"\n', "", "no output in [server]"),
    (read_server, "components = 2", "components = 2\nn_columns = 3", "either columns or n_columns"),
    (read_client, "[owner]", "[owners]", "unknown section or key 'owners'"),
    (read_client, 'key = "east.key"\n', "", "no key in [federation]"),
    (read_client, 'ledger = "east.ledger"\n', "", "no ledger in [owner]"),
    (read_client, "patience = 30", "random_state = 1", "unknown key 'random_state' in [owner]"),
    # Values of another kind.
    (read_server, "components = 2", 'components = "2"', "components in [federation]: give a"),
    (
        read_server,
        "components = 2",
        "components = true",
        "components in [federation]: give a",
    ),
    (read_server, "components = 2", "components = 2.0", "components in [federation]: give a"),
    (read_server, "most_weight = 0.6", "most_weight = nan", "most_weight in [federation]"),
    (read_server, "join_seconds = 5", f"join_seconds = 1{'0' * 400}", "join_seconds"),
    (read_server, '"age", "height"', '"age", "age"', "columns in [federation]: give names"),
    (read_server, '"age", "height"', "1, 2", "columns in [federation]: give names"),
    (read_server, "scale = [10.0, 20, 15]", 'scale = "private"', "scale in [federation]"),
    (read_server, 'folder = "journal"', "folder = 3", "folder in [server]: give the path"),
    (read_client, 'centring = "none"', "centring = 1", "centring in [owner]"),
    (read_client, 'row_norm = "private"', 'row_norm = "auto"', 'a number or "private"'),
    (read_client, "age = [0, 120]", "age = [0]", "bounds in [owner]: give [low, high]"),
    # Values that are impossible.
    (read_server, "quorum = 2", "quorum = 3", "the quorum must lie between 1 and the number"),
    (read_server, "components = 2", "components = 4", "components must lie between 1 and"),
    (read_server, 'kind = "covariance"', 'kind = "svd"', "kind must be"),
    (read_server, "scale = [10.0, 20, 15]", "scale = [1, 2]", "one positive scale for each"),
    (read_server, "epsilon = 1.0", "epsilon = -1.0", "epsilon"),
    (read_server, "[owners.west]", '[owners."a b"]', "owner must be a name"),
    (read_server, 'output = "release"', 'output = "journal"', "choose another"),
    (read_client, "epsilon = 1", "epsilon = 0", "epsilon"),
    (read_client, "share = 0.7", "share = 1.5", "share must lie"),
    (read_client, 'mechanism = "tangent"', 'mechanism = "spiked"', "mechanism of an owner"),
    (read_client, "patience = 30", "patience = 0", "patience must be"),
    # Not TOML.
    (read_server, "components = 2", "components = ", "is not TOML"),
    (read_client, "[owner]", "[owner", "is not TOML"),
]


@pytest.mark.parametrize(("read", "old", "new", "words"), MISTAKES)
def test_a_mistake_is_one_line_that_names_it(tmp_path, read, old, new, words):
    text = changed(SERVER if read is read_server else CLIENT, old, new)
    with pytest.raises(EigenveilError) as caught:
        read(written(tmp_path, text))
    message = str(caught.value)
    assert words in message
    assert message.startswith("federation.toml")
    assert "\n" not in message


@pytest.mark.parametrize("read", [read_server, read_client])
def test_no_file(tmp_path, read):
    with pytest.raises(InvalidDataError, match="check the path"):
        read(tmp_path / "federation.toml")


@pytest.mark.parametrize("text", ["owners = 3", "[owners]\neast = 3", ""])
def test_no_owners(tmp_path, text):
    rest = SERVER[: SERVER.index("[owners.east]")]
    with pytest.raises(EigenveilError, match=r"\[owners.NAME\]"):
        read_server(written(tmp_path, f"{text}\n{rest}" if "[" not in text else f"{rest}{text}"))


def test_what_is_no_text_is_not_toml(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(EigenveilError, match="is not TOML"):
        read_server(path)


def test_no_agreement_asks_for_messages_that_no_owner_reads():
    agreement(n_columns=2000, n_components=2000)
    agreement(n_columns=1_000_000, n_components=200)
    with pytest.raises(InvalidParameterError, match="larger message than owners read"):
        agreement(n_columns=100_000, n_components=1000)
