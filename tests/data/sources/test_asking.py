"""Columns that are asked about before they are analysed."""

import time
from datetime import date

import numpy as np
import pandas as pd
import pytest

from eigenveil import PrivatePCA
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.rows import is_named_like_an_id, open_rows
from tests.data.sources.tables import SECRET, refused

IDS = ("id", "ID", "patient_id", "PatientID", "patientId", "visit id", "MRN", "mrn", "user", "uuid")
IDS += ("patientnumber", "patient_nr", "PatientNo", "case_no", "caseNumber", "subjid", "subject")
IDS += ("emp_no", "EmpNumber", "personnel_nr", "cust_no", "acct_num")
IDS += ("Unnamed: 0", "Unnamed: 12", "rownames", "row_names", "row.names", "index", "Index")
IDS += ("seqn", "SEQN", "idcode", "pid", "PID")
IDS += ("USUBJID", "Fallnummer", "pseudonym", "account number", "employee_code")
NO_IDS = (
    "age",
    "grid",
    "acid",
    "fluid",
    "idle",
    "identity",
    "humid",
    "lipid",
    "users_online",
    "body_mass_index",
    "bmi index",
    "unnamed",
    "sequence",
    "rows",
    "case",
    "number",
    "visit_number",
    "phone_number_count",
    "casenoise",
    "record",
    "",
    "1",
)


def test_ids_are_known_by_their_names():
    assert [name for name in IDS if not is_named_like_an_id(name)] == []
    assert [name for name in NO_IDS if is_named_like_an_id(name)] == []


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "patient_id": np.arange(40),
            "sex": rng.choice(["f", "m"], 40),
            "admitted": ["2024-01-01"] * 40,
            "age": rng.normal(50, 10, 40),
            "height": rng.normal(170, 10, 40),
        }
    )


def test_all_of_them_are_asked_about_at_once(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet", index=False)
    for data in (table, tmp_path / "t.csv", tmp_path / "t.parquet"):
        with pytest.raises(InvalidDataError) as asked:
            PrivatePCA(1, epsilon=1.0, delta=1e-6).fit(data)
        told = str(asked.value)
        assert told.startswith("'patient_id' is named like an id and columns sex, admitted hold no")
        assert "open_rows(X, drop=['patient_id', 'sex', 'admitted'])" in told
        assert "open_rows(X, unit='patient_id')" in told
        assert "2024-01-01" not in told


def test_text_in_a_csv_file_is_refused_by_name_where_rows_may_not_be_invalid(table, tmp_path):
    path = tmp_path / "t.csv"
    table.drop(columns="patient_id").to_csv(path, index=False)
    with pytest.raises(InvalidDataError, match="columns sex, admitted hold no numbers"):
        PrivatePCA(1, epsilon=1.0, delta=1e-6).fit(path)
    hidden = PrivatePCA(1, epsilon=1.0, delta=1e-6, on_invalid="zero", random_state=0).fit(path)
    assert hidden.n_features_in_ == 4


def test_who_names_an_id_has_answered(table):
    source = open_rows(table, columns=["patient_id", "age"])
    assert source.schema.feature_names == ("patient_id", "age")
    assert open_rows(table, drop=["sex", "admitted"], unit="patient_id").n_columns == 2
    with pytest.raises(InvalidDataError, match="'patient_id' is named like an id"):
        open_rows(table, drop=["sex", "admitted"])
    with pytest.raises(InvalidDataError, match=r"leave out with columns=\['age'\]"):
        open_rows(table, columns=["age", "sex"])


def test_an_id_is_refused_with_the_ways_to_keep_it(tmp_path):
    """The pid of voters is a party identification."""
    votes = pd.DataFrame({"pid": [1, 2], "age": [30, 40], "income": [1.0, 2.0]})
    told = refused(lambda: open_rows(votes))
    assert "naming all columns to take, columns=['pid', 'age', 'income']" in told
    assert open_rows(votes, columns=["pid", "age", "income"]).n_columns == 3
    wide = votes.join(pd.DataFrame(0.0, index=range(2), columns=[f"x{j}" for j in range(20)]))
    assert "columns=['pid', ...]" in refused(lambda: open_rows(wide))
    path = tmp_path / "votes.csv"
    votes.to_csv(path)
    pd.read_csv(path).to_csv(path, index=False)  # with the index that pandas has given a name
    assert refused(lambda: open_rows(path)).startswith("Unnamed: 0, pid are named like ids")


def test_amounts_are_offered_by_name_and_not_as_categories(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('price,rate,sex,age\n"$1,200",13.5%,f,31\n$900,5 %,m,40\n')
    told = refused(lambda: open_rows(path).table.refuse_text())
    assert "encode={'sex': [...]}" in told
    assert "amounts and percentages become numbers with open_rows(X, as_number=['pri" in told
    assert "as_number=['price', 'rate'], decimal='.')" in told
    source = open_rows(path, as_number=["price", "rate"], decimal=".", drop=["sex"])
    np.testing.assert_array_equal(source.whole(), [[1200, 13.5, 31], [900, 5, 40]])
    assert "'price' is read without percent and currency signs" in source.schema.remarks
    unstated = open_rows(path, as_number=["price"], columns=["price"]).whole()
    np.testing.assert_array_equal(unstated, [[np.nan], [900]])
    frame = pd.read_csv(path)
    assert "as_number=['price'], decimal='.'" in refused(lambda: open_rows(frame))
    told = {"as_number": ["price", "rate"], "decimal": ".", "drop": ["sex"]}
    np.testing.assert_array_equal(open_rows(frame, **told).whole(), source.whole())
    with pytest.raises(InvalidDataError, match="no column 'prize': did you mean 'price'"):
        open_rows(path, as_number=["prize"])
    with pytest.raises(InvalidParameterError, match="name it in encode or as_number"):
        open_rows(path, as_number=["price"], encode={"price": ["a"]})
    with pytest.raises(InvalidParameterError, match="decimal must be"):
        open_rows(path, decimal="'")


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_columns_read_as_numbers_hold_some(kind, tmp_path):
    """By a wrong or unstated decimal mark every cell is missing, and a budget would be wasted."""
    table = pd.DataFrame({"price": ["$1,200", "$3,900"], "crp": ["<0.5", "<0.7"], "age": [31, 40]})
    path = tmp_path / f"t.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_excel(path, index=False)
    told = {"as_number": ["price"], "censored": {"crp": "limit"}}
    open_rows(path, **told, decimal=".").table.refuse_text()
    words = refused(lambda: open_rows(path, **told).table.refuse_text())
    assert words.startswith("column 'price' holds no numbers: leave out with ")
    assert "as_number=['price'], decimal='.'), with decimal=',' where the comma is" in words
    words = refused(lambda: open_rows(path, **told, decimal=",").table.refuse_text())
    assert words.startswith("column 'crp' holds no numbers")
    with pytest.raises(InvalidDataError, match="'price' holds no numbers"):
        PrivatePCA(1, epsilon=1.0, on_missing="centre").fit(open_rows(path, **told))
    open_rows(table, **told).table.refuse_text()  # a frame says the kinds of columns, not of cells


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_columns_whose_days_are_counted_hold_dates(kind, tmp_path):
    """Dates of another form would all be missing, and a budget wasted."""
    path = tmp_path / f"t.{kind}"

    def opened(*dates):
        table = pd.DataFrame({"age": [31.0, 40.0], "seen": dates})
        table.to_csv(path, index=False) if kind == "csv" else table.to_excel(path, index=False)
        return open_rows(path, encode={"seen": date(2024, 1, 1)})

    for dates in (("2024-01-31", "x"), (None, "31.1.2024"), ("NA", "n/a"), (None, None)):
        opened(*dates).table.refuse_text()
    words = refused(lambda: opened("31/01/2024", "28/02/2024").table.refuse_text())
    assert words.startswith("column 'seen' holds no dates such as 2024-01-31 or 31.1.2024: rewrite")
    with pytest.raises(InvalidDataError, match="holds no dates"):
        PrivatePCA(1, epsilon=1.0, on_missing="centre").fit(opened("01/31/24", "02/28/24"))


HEADERLESS = f"{SECRET},f,Bern\nMeier,m,Basel\nSchulz,m,Genf\n"


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_first_record_of_text_is_not_taken_for_names(mark, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(HEADERLESS.replace(",", mark))
    told = refused(lambda: open_rows(path))
    assert "first line of t.csv may be a record" in told
    assert "Bern" not in told
    options = {"epsilon": 1.0, "delta": 1e-6, "on_invalid": "zero"}
    assert "may be a record" in refused(lambda: PrivatePCA(1, **options).fit(path))


@pytest.mark.parametrize("word", ["NA", "NaN", "null", " N/A"])
def test_a_missing_value_is_no_name(word, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"{SECRET},{word},Bern\nMeier,5,Basel\n")
    assert "may be a record" in refused(lambda: open_rows(path))
    path.write_text(f"Na,{word}\n140,5\n")  # sodium
    assert open_rows(path, columns=["Na", word]).n_columns == 2
    path.write_text("Na,K\n140,5\n")
    assert open_rows(path).n_columns == 2


def test_a_table_of_text_with_names_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("sex,ward\nf,a\nm,b\n")
    assert "may be a record" in refused(lambda: open_rows(path))
    assert open_rows(path, encode={"sex": ["f", "m"], "ward": ["a"]}).n_columns == 3
    told = refused(lambda: open_rows(path, columns=["sex"]).table.refuse_text())
    assert "column 'sex' holds no numbers" in told
    path.write_text("sex,price\nf,$5\nm,$6\n")  # no amount is a name
    assert "as_number=['price']" in refused(lambda: open_rows(path).table.refuse_text())
    path.write_text("sex,ward\n")
    assert open_rows(path).n_columns == 2
    path.write_text("patient_id,ward\np7,a\n")
    assert "'patient_id' is named like an id" in refused(lambda: open_rows(path))


def test_a_table_of_ids_and_text_alone_gets_a_whole_sentence(table):
    with pytest.raises(InvalidDataError) as caught:
        open_rows(table[["patient_id", "sex"]])
    message = str(caught.value)
    assert "no numbers: protect all rows of one person together with " in message
    assert "unit='patient_id'), or keep it by naming all columns to take, columns=[" in message
    assert "; categories and dates become numbers with " in message


def test_decimal_commas_between_commas_are_no_numbers(tmp_path):
    (tmp_path / "t.csv").write_text('age,height\n"1,5","2,5"\n"1,7","2,1"\n')
    with pytest.raises(InvalidDataError, match="age, height hold no numbers"):
        open_rows(tmp_path / "t.csv").table.refuse_text()


def test_a_rule_for_a_column_that_is_not_there_is_refused(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    for data in (table, tmp_path / "t.csv"):
        with pytest.raises(InvalidDataError, match="no column 'hieght': did you mean 'height'"):
            open_rows(data, columns=["age", "height"], censored={"hieght": "half"})


def test_opening_a_table_takes_no_square_of_its_columns(tmp_path):
    """Looking up each among all others took 18 seconds at 40,000."""
    names = [f"c{j}" for j in range(20_000)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([",".join(names), ",".join(["1.5"] * len(names))]) + "\n")
    frame = pd.DataFrame(np.ones((2, len(names))), columns=names)
    half = names[::2]
    begun = time.monotonic()
    for data in (path, frame):
        assert open_rows(data, drop=half).n_columns == len(half)
        assert open_rows(data, columns=half, unit="c1").n_columns == len(half)
        encode = {name: ["1.5"] for name in half[:2000]}
        assert open_rows(data, encode=encode).n_columns == len(names)
    assert open_rows(frame, drop=half).whole().shape == (2, len(half))
    assert time.monotonic() - begun < 30  # about 2 seconds
