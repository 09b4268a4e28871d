"""Columns that are asked about before they are analysed."""

import numpy as np
import pandas as pd
import pytest

from eigenveil import PrivatePCA
from eigenveil.data.sources import open_rows
from eigenveil.data.sources.asking import is_named_like_an_id
from eigenveil.exceptions import InvalidDataError

IDS = ("id", "ID", "patient_id", "PatientID", "patientId", "visit id", "MRN", "mrn", "user", "uuid")
IDS += ("patientnumber", "patient_nr", "PatientNo", "case_no", "caseNumber", "subjid", "subject")
IDS += ("emp_no", "EmpNumber", "personnel_nr", "cust_no", "acct_num")
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
    assert source.feature_names == ("patient_id", "age")
    assert open_rows(table, drop=["sex", "admitted"], unit="patient_id").n_columns == 2
    with pytest.raises(InvalidDataError, match="'patient_id' is named like an id"):
        open_rows(table, drop=["sex", "admitted"])
    with pytest.raises(InvalidDataError, match=r"leave out with columns=\['age'\]"):
        open_rows(table, columns=["age", "sex"])


def test_a_table_of_ids_and_text_alone_gets_a_whole_sentence(table):
    with pytest.raises(InvalidDataError) as caught:
        open_rows(table[["patient_id", "sex"]])
    message = str(caught.value)
    assert "no numbers: protect all rows of one person together with " in message
    assert "unit='patient_id'), or analyse it by naming all columns to take, columns=[" in message
    assert "; categories and dates become numbers with " in message


def test_decimal_commas_between_commas_are_no_numbers(tmp_path):
    (tmp_path / "t.csv").write_text('age,height\n"1,5","2,5"\n"1,7","2,1"\n')
    with pytest.raises(InvalidDataError, match="age, height hold no numbers"):
        open_rows(tmp_path / "t.csv").refuse_text()


def test_a_rule_for_a_column_that_is_not_there_is_refused(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    for data in (table, tmp_path / "t.csv"):
        with pytest.raises(InvalidDataError, match="no column 'hieght': did you mean 'height'"):
            open_rows(data, columns=["age", "height"], censored={"hieght": "half"})
