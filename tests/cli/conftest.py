"""A small table of mixed columns, as files of every kind."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from eigenveil.cli import main

NUMBERS = ("age", "hours", "gain")
ROWS = 400


def invoke(*arguments, input=None):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=input)


def fails(code, *arguments, **options):
    """One line on standard error that starts with ``error: ``, and nothing else."""
    result = invoke(*arguments, **options)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    told = but_for_noise(result.stderr)
    assert told.startswith("error: ")
    assert told.count("\n") == 1
    assert told.endswith("\n")
    return told


def but_for_noise(stderr):
    """The same without the warning that a release from the small table may be noise."""
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("beware: no component stands"))


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The same rows as CSV (with a text column), parquet (with it) and .npy (without)."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    table = np.round(rng.standard_normal((ROWS, 3)) * [12, 6, 1] + [40, 38, 3], 3)
    jobs = rng.choice(["clerk", "farmer", "secretive-job"], ROWS)
    with (folder / "people.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*NUMBERS[:2], "job", NUMBERS[2]])
        writer.writerows([*row[:2], job, row[2]] for row, job in zip(table, jobs, strict=True))
    np.save(folder / "people.npy", table)
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        pass
    else:
        content = {name: table[:, j] for j, name in enumerate(NUMBERS)}
        pyarrow.parquet.write_table(
            pyarrow.table({**content, "job": jobs}), folder / "people.parquet"
        )
    return SimpleNamespace(
        folder=folder,
        csv=folder / "people.csv",
        npy=folder / "people.npy",
        parquet=folder / "people.parquet",
        rows=table,
    )


@pytest.fixture
def asked():
    """Options of an ordinary release of components of columns as they are."""
    budget = ["--epsilon", 1, "--delta", 1e-6]
    return ["--columns", ",".join(NUMBERS), "--k", 2, "--scale", "same", *budget]
