"""Every mistake is one line that says what to do, charges nothing and shows no cell."""

import os

import numpy as np
import pandas as pd
import pytest

from eigenveil import Ledger, PrivatePCA
from tests.cli.conftest import fails, invoke

MISTAKES = {
    # options after `fit people.csv`: exit code, words of the line
    "--columns age,hours --epsilon 0 --delta 1e-6": (2, "epsilon must be positive"),
    "--columns age,hours --epsilon -1": (2, "positive and finite: 1 is usual, less protects more"),
    "--columns age,hours --epsilon nan": (2, "positive and finite: 1 is usual, less protects more"),
    "--columns age,hours --epsilon 1 --delta nan": (2, "well below 1 over the number of rows"),
    "--columns age,hours --rho inf": (2, "0.03 is about epsilon = 1 with delta = 1e-6"),
    "--columns age,hours --epsilon one": (2, "not a valid float"),
    "--columns age,hours": (2, "give a budget"),
    "--columns age,hours --epsilon 1 --rho 1": (2, "not both"),
    "--columns age,hours --epsilon 1 --delta 2": (2, "delta must lie between"),
    "--columns age,hours --epsilon 1 --mechanism tangent": (2, "give delta as well"),
    "--columns age,hours --epsilon 1 --mechanism nonsense": (2, "mechanism must be one of"),
    "--columns age,hours --epsilon 1 --k 3": (2, "--k must be between 1 and"),
    "--columns age,hours --epsilon 1 --k many": (2, "give an integer or 'private'"),
    "--columns age,hours --epsilon 1 --k 1.5": (2, "give an integer or 'private'"),
    "--columns age,hours --epsilon 1 --row-norm far": (2, "give a number or 'private'"),
    "--columns age,hours --epsilon 1 --bounds 1": (2, "write it as LOW,HIGH"),
    "--columns age,hours --epsilon 1 --bounds age=1:2": (2, "--bounds leaves out hours"),
    "--columns age,hours --epsilon 1 --bounds age=1:2,hour=1:2": (3, "did you mean 'hours'"),
    "--columns age,hours --epsilon 1 --bounds 2,1": (2, "low not above high"),
    "--columns age,hours --epsilon 1 --scale some": (2, "write it as private"),
    "--columns age,hours --epsilon 1 --adjacency other": (2, "replace-one"),
    "--columns age,hours --epsilon 1 --ledger none.ledger": (3, "eigenveil ledger init"),
    "--columns age,hours --epsilon 1 --config none.toml": (3, "check --config"),
    "--columns agee,hours --epsilon 1": (3, "did you mean 'age'? choose from age, hours, job"),
    "--columns age,job --epsilon 1": (3, "'job' holds no numbers: leave out with --columns age;"),
    "--epsilon 1": (3, "column 'job' holds no numbers: leave out with --drop job;"),
    "--drop ages --epsilon 1": (3, "no column 'ages': did you mean 'age'?"),
    "--drop age,hours,job,gain --epsilon 1": (2, "--drop leaves no column"),
    "--drop job --columns age --epsilon 1": (2, "leave --drop out"),
    "--drop job --encode job --epsilon 1": (2, "is encoded, but not taken"),
    "--encode job --encode job --epsilon 1": (2, "--encode names a column twice"),
    "--encode job=a,a --epsilon 1": (2, "a name is there twice"),
    "--encode =a --epsilon 1": (2, "write NAME, NAME=LEVEL,LEVEL"),
    "--encode job --epsilon 1": (2, "give delta as well"),
    "--drop job --censored some --epsilon 1": (2, "write missing, limit or half"),
    "--drop job --censored limit --censored age=half --epsilon 1": (2, "--censored is one rule"),
    "--drop job --encoding klingon --epsilon 1": (2, "--encoding is none that Python knows"),
}


@pytest.mark.parametrize("options", MISTAKES)
def test_mistakes_in_options(options, files, tmp_path):
    code, words = MISTAKES[options]
    message = fails(code, "fit", files.csv, *options.split(), "-o", tmp_path / "released")
    assert words in message
    assert "secretive-job" not in message
    assert not (tmp_path / "released").exists()


def test_the_same_columns_are_text_in_parquet(files, tmp_path):
    pytest.importorskip("pyarrow")
    words = [files.parquet, "--epsilon", 1, "-o", tmp_path / "released"]
    assert "holds no numbers: leave out with --drop job;" in fails(3, "fit", *words)
    assert "did you mean 'hours'" in fails(3, "fit", *words, "--columns", "hour")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.csv", None, "check the path"),
        ("table.txt", b"a,b\n1,2\n", "give a .csv, .tsv, .csv.gz, .parquet, .xlsx"),
        ("wide.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-16: pass --encoding utf-16"),
        ("plain.csv", "a,b\n1,2\n".encode("utf-16-le"), "UTF-16: pass --encoding utf-16"),
        ("empty.csv", b"", "needs a first line with the names"),
        ("bare.csv", b"1,2\n3,4\n", "needs a first line with the names"),
        ("binary.npy", b"nonsense", "not a readable .npy"),
        ("binary.parquet", b"PAR1 nonsense", "not a readable parquet"),
        ("header.csv", b"a,b\n", "the table has no rows"),
        ("twice.csv", b"b,a,a\n1,2,3\n", "two columns have the same name, 'a': rename one"),
        ("old.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", "save it as .xlsx or CSV"),
        ("packed.csv", b"\x1f\x8b\x08\0ab", "rename it to end in .csv.gz"),
        ("column.csv", b"PAR1\x15\x04\x15", "rename it to end in .parquet"),
        ("index.csv", b",a\n1,2\n3,4\n", "--columns"),
    ],
)
def test_files_that_cannot_be_used(name, content, words, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    message = fails(3, "fit", tmp_path / name, "--epsilon", 1, "-o", tmp_path / "released")
    assert words in message


def test_a_workbook_by_the_name_of_a_csv_file(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for record in [("a", "b"), *((i, i % 7) for i in range(300))]:
        book.worksheets[0].append(record)
    book.save(tmp_path / "t.xlsx")
    content = (tmp_path / "t.xlsx").read_bytes()
    (tmp_path / "t.csv").write_bytes(content)
    words = ["--epsilon", 1, "--scale", "same", "-o", tmp_path / "released"]
    advice = "looks like an Excel workbook: rename it to end in .xlsx, or export it as CSV"
    assert advice in fails(3, "fit", tmp_path / "t.csv", *words)
    assert advice in fails(3, "fit", "-", *words, input=content)
    assert invoke("fit", tmp_path / "t.xlsx", *words).exit_code == 0


def test_names_like_the_marks_of_other_files_are_names(tmp_path):
    lines = ["PAR1,PK", *(f"{i % 7},{i % 5}" for i in range(300))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    words = ["--epsilon", 1, "--scale", "same", "-o", tmp_path / "released"]
    assert invoke("fit", tmp_path / "t.csv", *words).exit_code == 0


def test_which_cell_is_bad_is_not_told(tmp_path):
    """A word, an empty cell and a cell too many, in any column: one message for all."""
    told = set()
    for bad in ("secret,1", "1,secret", ",1", "1,2,4711"):
        lines = ["a,b", *(f"{i % 7},{i % 5}" for i in range(300))]
        lines[200] = bad
        (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
        words = ["--epsilon", 1, "--scale", "same", "-o", tmp_path / "released"]
        told.add(fails(3, "fit", tmp_path / "t.csv", *words))
    (message,) = told
    assert "or text, or has too many cells" in message
    assert "secret" not in message


def test_a_first_record_is_not_taken_for_names(tmp_path):
    """Without a header, the names that exist would be the first record."""
    (tmp_path / "bare.csv").write_text("39,77516\n50,83311\n")
    words = ["--columns", "age", "--epsilon", 1, "-o", tmp_path / "released"]
    message = fails(3, "fit", tmp_path / "bare.csv", *words)
    assert "77516" not in message


def test_a_truncated_parquet_file(files, tmp_path):
    pytest.importorskip("pyarrow")
    whole = files.parquet.read_bytes()
    for share in (0.3, 0.99):
        (tmp_path / "cut.parquet").write_bytes(whole[: int(len(whole) * share)])
        words = ["--columns", "age,hours", "--epsilon", 1, "-o", tmp_path / "released"]
        assert "cut.parquet" in fails(3, "fit", tmp_path / "cut.parquet", *words)


def test_parquet_damaged_inside_charges_nothing(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "damaged.parquet"
    rows = np.random.default_rng(0).standard_normal((2000, 2))
    parquet.write_table(pyarrow.table({"a": rows[:, 0], "b": rows[:, 1]}), path)
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content)
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=1, delta=1e-6)
    words = [path, "--epsilon", 1, "--delta", 1e-6, "--ledger", ledger.path]
    assert "damaged or truncated" in fails(3, "fit", *words, "-o", tmp_path / "released")
    assert ledger.entries == ()


def test_text_is_judged_by_whole_columns(tmp_path):
    """One stray word among numbers makes its row invalid; an empty column is no text.

    Where rows with text contribute nothing, their first lines do not decide over a run.
    """
    lines = ["a,b,c", *(f"{i},{'unknown' if i == 3 else i},{''}" for i in range(150))]
    (tmp_path / "stray.csv").write_text("\n".join(lines) + "\n")
    words = ["--epsilon", 1, "--scale", "same", "--on-invalid", "zero"]
    words += ["-o", tmp_path / "released"]
    assert invoke("fit", tmp_path / "stray.csv", *words).exit_code == 0
    (tmp_path / "late.csv").write_text("a,b\n" + "1,x\n" * 100 + "1,2\n" * 100)
    message = fails(3, "fit", tmp_path / "late.csv", "--epsilon", 1, "-o", tmp_path / "other")
    assert "column 'b' holds no numbers: leave out with --drop b;" in message
    assert invoke("fit", tmp_path / "late.csv", *words[:-1], tmp_path / "other").exit_code == 0


def test_all_text(tmp_path):
    (tmp_path / "words.csv").write_text("a,b\nx,y\n")
    words = ["fit", tmp_path / "words.csv", "--epsilon", 1, "-o", tmp_path / "r"]
    assert "the first line of words.csv may be a record" in fails(3, *words)
    message = fails(3, *words, "--columns", "a,b")
    assert "columns a, b hold no numbers: categories and dates become numbers with" in message


def test_names_with_commas_and_spaces(tmp_path):
    lines = ['"income, net", age,job']
    lines += [f"{i % 7},{i % 5},x" for i in range(200)]
    (tmp_path / "odd.csv").write_text("\n".join(lines) + "\n")
    words = ["--epsilon", 1, "--scale", "same", "-o", tmp_path / "released"]
    message = fails(3, "fit", tmp_path / "odd.csv", "--columns", '"income, net"," age",job', *words)
    proposed = message.split("--columns ")[1].split(";")[0].strip("'")
    assert proposed == '"income, net"," age"'
    result = invoke("fit", tmp_path / "odd.csv", *words, "--columns", proposed)
    assert result.exit_code == 0, result.output


def test_standard_input_has_the_same_mistakes(tmp_path):
    words = ["fit", "-", "--epsilon", 1, "-o", tmp_path / "released"]
    assert "needs a first line" in fails(3, *words, input="")
    assert "column 'b' holds no numbers" in fails(3, *words, input="a,b\n1,x\n")
    assert "save the table as CSV" in fails(2, *words, "--unit", "a", input="a,b\n1,x\n")


def test_ledger_mistakes(tmp_path):
    assert "give a budget" in fails(2, "ledger", "init", tmp_path / "a.ledger")
    fails(2, "ledger", "init", tmp_path / "a.ledger", "--epsilon", 0)
    fails(3, "ledger", "init", tmp_path / "none" / "a.ledger", "--epsilon", 1)
    assert invoke("ledger", "init", tmp_path / "a.ledger", "--epsilon", 1).exit_code == 0
    assert "exists already" in fails(3, "ledger", "init", tmp_path / "a.ledger", "--epsilon", 9)
    (tmp_path / "b.ledger").write_text("nonsense")
    for verb in ("show", "history"):
        fails(3, "ledger", verb, tmp_path / "b.ledger")
        fails(3, "ledger", verb, tmp_path / "none.ledger")
    fails(2, "ledger", "export", tmp_path / "a.ledger", "-o", tmp_path / "x.xml")
    fails(2, "ledger", "export", tmp_path / "a.ledger", "-o", tmp_path / "none" / "x.csv")


@pytest.mark.parametrize(
    "content",
    [
        b"SSN 123-45-6789;4711.5;secret\n1;2;3\n",
        b"SSN 123-45-6789\t4711.5\tsecret\n1\t2\t3\n",
        b"SSN 123-45-6789|secret\n1|2\n",
        b"\x89PNG\x00secret,4711\n\x00",
        b"\xffsecret,b\n1,2\n",
        b'"a,b\nsecret,4711\n1,2\n',
        b"secret,4711-12\n1,2\n",
    ],
)
def test_a_first_line_that_may_be_a_record_is_not_shown(content, tmp_path):
    (tmp_path / "p.csv").write_bytes(content)
    words = ["--epsilon", 1, "-o", tmp_path / "released"]
    for chosen in ([], ["--columns", "age"], ["--unit", "age"], ["--bounds", "age=1:2"]):
        message = fails(3, "fit", tmp_path / "p.csv", *chosen, *words)
        assert "secret" not in message
        assert "4711" not in message
    message = fails(3, "plan", "-", "--epsilon", 1, input=content)
    assert "secret" not in message


def test_names_are_given_once(files, tmp_path):
    words = [files.csv, "--epsilon", 1, "-o", tmp_path / "released"]
    assert "there twice" in fails(2, "fit", *words, "--columns", "age,age")
    twice = ["--columns", "age,hours", "--bounds", "age=1:2,hours=1:2,age=0:1"]
    assert "there twice" in fails(2, "fit", *words, *twice)
    assert "give names" in fails(2, "fit", *words, "--columns", "a\rb")


def test_a_link_to_nowhere_is_refused_before_the_charge(files, asked, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=1, delta=1e-6)
    words = [*asked, "--ledger", ledger.path, "-o", tmp_path / "link"]
    assert "exists already" in fails(2, "fit", files.csv, *words)
    assert ledger.entries == ()


def test_a_ledger_of_a_strange_name_is_spelled_out(files, asked, tmp_path):
    ledger = Ledger.create(tmp_path / "a\x1b.ledger", epsilon=1, delta=1e-6)
    words = [*asked, "--ledger", ledger.path, "-o", tmp_path / "released"]
    assert "of ledger a\\x1b.ledger" in invoke("fit", files.csv, *words).stdout
    assert invoke("verify", tmp_path / "released").exit_code == 0


LONG = "x" * 300


@pytest.mark.parametrize(
    "words",
    [
        ["fit", f"{LONG}.csv", "--epsilon", 1, "-o", "r"],
        ["fit", "people.csv", "--epsilon", 1, "-o", LONG],
        ["fit", "people.csv", "--epsilon", 1, "-o", f"{LONG}/r"],
        ["fit", "people.csv", "--epsilon", 1, "-o", "r", "--ledger", LONG],
        ["fit", "people.csv", "--epsilon", 1, "-o", "r", "--config", LONG],
        ["fit", "people.csv", "--epsilon", 1, "-o", "r", "--sign", LONG],
        ["plan", "people.npy", "--epsilon", 1, "--figure", f"{LONG}.png"],
        ["plan", "people.npy", "--epsilon", 1, "--figure", f"{LONG}/a.png"],
        ["plan", "--rows", "1" + 400 * "0", "--columns-count", 3, "--epsilon", 1],
        ["plan", "--rows", 1000, "--columns-count", "1" + 400 * "0", "--epsilon", 1],
        ["plan", "--rows", "9" * 5000, "--columns-count", 3, "--epsilon", 1],
        ["plan", "--rows", 1000, "--columns-count", 3, "--k", "9" * 400, "--epsilon", 1],
        ["plan", "--rows", 1000, "--columns-count", 3, "--epsilon", "1e400"],
        ["ledger", "init", LONG, "--epsilon", 1],
        ["ledger", "show", LONG],
        ["keygen", LONG],
    ],
    ids=lambda words: " ".join(str(word)[:12] for word in words),
)
def test_names_and_numbers_out_of_all_proportion(words, files, tmp_path, monkeypatch):
    for name in ("people.csv", "people.npy"):
        (tmp_path / name).write_bytes((files.folder / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    result = invoke(*words)
    assert result.exit_code in (2, 3), result.output
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize("verb", ["verify", "inspect"])
def test_a_long_name_of_a_release(verb):
    fails(3, verb, LONG)


def test_names_of_parquet_columns_are_spelled_out(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"a\x1b[2K\nx": [1.0, 2.0], "b": [1.0, 3.0]}), path)
    message = fails(3, "fit", path, "--columns", "c", "--epsilon", 1, "-o", tmp_path / "r")
    assert "\\x1b[2K" in message
    planned = invoke("plan", path, "--epsilon", 1, "--delta", 1e-6, "--scale", "same")
    assert planned.exit_code == 0, planned.output
    assert "\x1b" not in planned.output


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """Every command that takes a table, as words around its name."""
    folder = tmp_path_factory.mktemp("commands")
    rows = np.random.default_rng(0).standard_normal((50, 2))
    frame = pd.DataFrame(rows, columns=["a", "b"])
    PrivatePCA(1, rho=1.0).fit(frame).release_.save(folder / "pca")
    budget = ["--epsilon", 1, "--delta", 1e-6]
    chosen, named = ["--columns", "a,b", *budget], ["--batch", "one"]
    return {
        "plan": lambda data: ["plan", data, *budget],
        "plan some": lambda data: ["plan", data, *chosen],
        "fit": lambda data: ["fit", data, *budget, "-o", folder / "r"],
        "fit some": lambda data: ["fit", data, *chosen, "-o", folder / "r"],
        "fit zero": lambda data: ["fit", data, *chosen, "--on-invalid", "zero", "-o", folder / "r"],
        "covariance": lambda data: [
            "covariance",
            data,
            *chosen,
            "--row-norm",
            1,
            "-o",
            folder / "r",
        ],
        "stream": lambda data: ["stream", data, "--state", folder / "s", *named, "--k", 1, *chosen],
        "transform": lambda data: ["transform", folder / "pca", data],
    }


@pytest.mark.parametrize("first", [3, 150])
def test_a_stray_quote_is_named_by_its_line(first, commands, tmp_path):
    """In an unselected column, within the lines that are looked at for text and after them."""
    lines = ["a,b,note", *(f"{i % 7},{i % 5},{i}" for i in range(400))]
    lines[first - 1] = '1,2,"secret'
    lines[390] = '3,secret",4'
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    for words in commands.values():
        for data, text in ((tmp_path / "t.csv", None), ("-", "\n".join(lines))):
            message = fails(3, *words(data), input=text)
            assert f"not one record, line {first}: remove stray quotes" in message
            assert "secret" not in message


def test_parquet_with_a_record_for_names(commands, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "bare.csv").write_text("5.1,secret,5.1\n1,2,3\n4,5,6\n")
    pd.read_csv(tmp_path / "bare.csv").to_parquet(tmp_path / "t.parquet")
    for words in commands.values():
        message = fails(3, *words(tmp_path / "t.parquet"))
        assert "t.parquet has a column named like a value, perhaps of a first record" in message
        assert "5.1" not in message
        assert "secret" not in message


def odd_files(folder):
    """Files that are none, or not what their names say."""
    (folder / "loop.csv").symlink_to(folder / "loop.csv")
    yield folder / "loop.csv"
    for kind in ("csv", "npy", "parquet"):
        (folder / f"folder.{kind}").mkdir()
        yield folder / f"folder.{kind}"
        os.mkfifo(folder / f"fifo.{kind}")
        yield folder / f"fifo.{kind}"
        (folder / f"a\nb.{kind}").write_bytes(b"\x00\x01")
        yield folder / f"a\nb.{kind}"
        yield folder / f"{LONG}.{kind}"
        yield folder / "loop.csv" / f"t.{kind}"
    for name, header in {
        "nested": "(" * 9000,
        "signs": "-" * 9900 + "1",
        "negative": "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2), }",
        "wide": "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1000000000000), }",
    }.items():
        size = len(header).to_bytes(2, "little")
        (folder / f"{name}.npy").write_bytes(b"\x93NUMPY\x01\x00" + size + header.encode())
        yield folder / f"{name}.npy"


def test_odd_files_end_in_one_line(commands, tmp_path):
    pytest.importorskip("pyarrow")
    for path in odd_files(tmp_path):
        for name, words in commands.items():
            if path.suffix != ".npy" or "--columns" not in words(path):  # which it has none of
                assert fails(3, *words(path)), name
