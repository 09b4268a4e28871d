"""A real cluster of two worker processes, one of which is killed while it works."""

import os
import signal
import time

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from eigenveil.cli import main
from eigenveil.engines import connected, on_cluster
from eigenveil.exact import Clip, second_moment
from eigenveil.exceptions import InvalidDataError
from eigenveil.privacy import Adjacency
from eigenveil.rows import count_units, grouped, open_rows

da = pytest.importorskip("dask.array", reason="needs the extra dask")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed", reason="needs the extra dask")

ROWS = np.random.default_rng(0).standard_normal((4000, 8)) + 1
IDS = np.random.default_rng(1).integers(0, 300, len(ROWS))
CLIP = Clip(row_norm=4.0)
SIZES = (3500, 0, 1, 99, *[50] * 8)  # skewed


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def moment(data, ids=None):
    source = open_rows(data)
    source = source if ids is None else grouped(source, ids)
    return second_moment(source, CLIP, Adjacency.REPLACE_ONE).value.units


def test_two_processes_release_the_bits_of_one(client):
    rows = da.from_array(ROWS, chunks=(SIZES, -1))
    assert np.array_equal(moment(rows), moment(ROWS))
    text = np.array([f"p{i}" for i in IDS], dtype=object)
    owners = da.from_array(text, chunks=(SIZES,))
    assert np.array_equal(moment(rows, owners), moment(ROWS, IDS))


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    frame = pd.DataFrame(ROWS, columns=list("abcdefgh")).assign(who=IDS)
    place = tmp_path / "table"
    place.mkdir()
    for number in range(3):
        frame[number::3].to_parquet(place / f"{number}.parquet", row_group_size=500, index=False)
    return place


def test_workers_read_files_themselves(client, folder):
    columns = list("abcdefgh")
    rows = on_cluster(open_rows(folder, columns))
    assert np.array_equal(moment(rows), moment(ROWS))
    persons = on_cluster(open_rows(folder, columns, "who"))
    assert np.array_equal(moment(persons), moment(ROWS, IDS))
    assert persons.units.protects.column == "who"
    with pytest.raises(InvalidDataError, match="parquet files that they all see"):
        on_cluster(open_rows(ROWS))


def test_the_command_line_takes_the_address_of_a_scheduler(client, folder, tmp_path):
    address = client.scheduler_info()["address"]
    asked = ["fit", str(folder), "--drop", "who", "--k", "2", "--epsilon", "5", "--delta", "1e-6"]
    done = CliRunner().invoke(main, [*asked, "--cluster", address, "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(main, ["verify", str(tmp_path / "out")]).exit_code == 0


def test_an_address_where_nobody_answers():
    with pytest.raises(InvalidDataError, match="no scheduler"), connected("nowhere://x"):
        pass


def test_a_worker_killed_while_it_works_changes_nothing(client, tmp_path):
    flag = tmp_path / "killed"

    def deadly(block):
        """The first worker to come here dies; its partitions are computed again elsewhere."""
        if len(block) == 99:
            try:
                os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return block
            time.sleep(0.2)  # others have been summed by then
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    rows = da.from_array(ROWS, chunks=(SIZES, -1))
    rows = rows.map_blocks(deadly, dtype=float, meta=np.empty((0, 8)))
    assert np.array_equal(moment(rows), moment(ROWS))
    assert flag.exists()


def test_a_worker_killed_with_kept_parts_of_persons_changes_nothing(client):
    """Rows of persons are kept where they were shuffled to; what dies there is shuffled again."""
    rows = da.from_array(ROWS, chunks=(SIZES, -1))
    source = grouped(open_rows(rows), IDS)
    count_units(source)  # all parts are kept by now
    holders = {worker for where in client.who_has().values() for worker in where}
    alive = client.run(os.getpid)
    os.kill(alive[next(iter(holders))], signal.SIGKILL)
    found = second_moment(source, CLIP, Adjacency.REPLACE_ONE).value.units
    assert np.array_equal(found, moment(ROWS, IDS))


def test_a_partition_that_is_tried_again_is_counted_once(client, tmp_path):
    flag = tmp_path / "failed"

    def failing(block):
        """Fails once, after which Dask tries it again."""
        if len(block) == 99 and not flag.exists():
            flag.touch()
            raise OSError("a disk was slow")
        return block

    rows = da.from_array(ROWS, chunks=(SIZES, -1))
    rows = rows.map_blocks(failing, dtype=float, meta=np.empty((0, 8)))
    with dask.annotate(retries=2):
        assert np.array_equal(moment(rows), moment(ROWS))
    assert flag.exists()
