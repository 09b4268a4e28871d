"""Secure sums from the first message to the release, in one process."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from eigenveil.exceptions import NothingFoundError, QuorumLostError, StateError
from eigenveil.federated import Code, Happening, Refusal, decode, encode, simulate
from eigenveil.federated.secure import (
    Roll,
    SumQuestion,
    SumScript,
    Total,
    Upload,
    asked_next,
    total_of,
)
from eigenveil.numerics import captured_variance, subspace_distance
from eigenveil.privacy import stated, whole_strength
from eigenveil.release import Release, regression
from tests.federated.secure.parties import Server, agreement, real_owner, simulated, tables

ROWS = tables()


def silent(line: str) -> None:
    pass


class Lossy:
    """An owner that stops answering at one kind of message, or from some step on."""

    def __init__(self, owner, *, at, times=10**9) -> None:
        self._owner, self._at, self.times = owner, at, times

    def answer(self, question):
        asked = [kind for kind in (b'"kind":"roll"', b'"kind":"sum-question"') if kind in question]
        step = question.partition(b'"step":')[2][:1]
        if asked and (asked[0].split(b'"')[3].decode(), step.decode()) == self._at and self.times:
            self.times -= 1
            refusal = Refusal(federation="trial", owner=self._owner.name, code=Code.LOST)
            return encode(refusal)
        return self._owner.answer(question)


def test_components_about_one_common_centre(tmp_path):
    agreed = agreement(ROWS)
    release = simulate(agreed, simulated(agreed, ROWS))
    components = release.arrays["components"]
    assert abs(components[0, 1]) > 0.99
    np.testing.assert_allclose(release.arrays["mean"], 10, atol=0.5)
    assert release.arrays["distinguishable"].tolist() == [1.0]
    saved = Release.verify(release.save(tmp_path / "release"))
    assert saved.guarantee == release.guarantee
    assert saved.settings["secure"]["agreement"] == agreed.digest.hex()
    assert saved.settings["secure"]["doubt"] is None


def test_the_total_holds_what_lies_between_owners_and_within_does_not():
    rows = tables(apart=60.0)
    truth = np.cov(np.concatenate(list(rows.values())).T)
    total, within = (
        simulate(agreed, simulated(agreed, rows))
        for agreed in (agreement(rows), agreement(rows, variance="within"))
    )
    assert captured_variance(total.arrays["components"], truth) > 0.99
    assert abs(within.arrays["components"][0, 1]) > 0.99
    assert "Describes: total variance" in total.statement()
    assert "Describes: variance within owners" in within.statement()


def test_a_covariance_within_bounds(tmp_path):
    agreed = agreement(
        ROWS, kind="covariance", bounds=((-10.0,) * 5, (30.0,) * 5), epsilon=60.0, delta=0.01
    )
    release = simulate(agreed, simulated(agreed, ROWS))
    truth = np.cov(np.concatenate(list(ROWS.values())).T)
    assert np.linalg.norm(release.arrays["covariance"] - truth) < 0.2 * np.linalg.norm(truth)
    np.testing.assert_allclose(release.arrays["location"], 10, atol=0.5)
    assert Release.verify(release.save(tmp_path / "release")).kind == "covariance"


def test_a_covariance_without_bounds(tmp_path):
    agreed = agreement(ROWS, kind="covariance", epsilon=60.0, delta=0.01)
    release = simulate(agreed, simulated(agreed, ROWS))
    truth = np.cov(np.concatenate(list(ROWS.values())).T)
    assert np.linalg.norm(release.arrays["covariance"] - truth) < 0.2 * np.linalg.norm(truth)
    np.testing.assert_allclose(release.arrays["location"], 10, atol=0.5)
    assert "none needed" in release.statement()
    assert np.abs(regression(release, 0).coefficients).max() < 0.3  # columns are independent
    assert agreed.cost.mu <= whole_strength(agreed.budget, pure=False)
    assert Release.verify(release.save(tmp_path / "release")).kind == "covariance"


def test_the_page_says_what_holds_with_how_many_honest_owners(tmp_path):
    agreed = agreement(ROWS)
    folder = simulate(agreed, simulated(agreed, ROWS)).save(tmp_path / "release")
    page = (folder / "report.html").read_text("utf-8")
    table = page[page.index('<table class="honest">') :]
    table = table[: table.index("</table>")]
    assert table.count("<tr>") == 1 + agreed.honest
    for honest, epsilon in agreed.promise.table(agreed.delta):
        assert f"{honest}</th>" in table
        assert stated(epsilon) in table


def test_scaled_columns_come_back_in_their_own_units():
    scale = (1.0, 2.0, 1.0, 1.0, 4.0)
    rows = {name: table * scale for name, table in ROWS.items()}
    agreed = agreement(rows, scale=scale)
    plain = simulate(agreement(ROWS), simulated(agreement(ROWS), ROWS))
    scaled = simulate(agreed, simulated(agreed, rows))
    assert subspace_distance(plain.arrays["components"], scaled.arrays["components"]) < 1e-9
    np.testing.assert_allclose(scaled.arrays["mean"], plain.arrays["mean"] * scale)


def test_who_is_first_changes_no_bit():
    agreed = agreement(ROWS)
    first = simulate(agreed, simulated(agreed, ROWS))
    owners = simulated(agreed, ROWS)
    second = simulate(agreed, dict(reversed(owners.items())))
    for name, array in first.arrays.items():
        assert np.array_equal(array, second.arrays[name])


def test_the_noise_of_the_total_is_that_of_all_members():
    """Chi-squared at 5e-7 on either side; shares of s, or of s/t, would fail."""
    agreed = agreement(ROWS)
    server = Server(agreed, simulated(agreed, ROWS))
    server.run()
    heard = _heard(server)
    step = agreed.steps[0]
    total = total_of(step, heard)
    noise = total.values[100:250] / total.deviation  # far beyond all rows: the counts are zero
    assert chi2.ppf(5e-7, 150) < noise @ noise < chi2.isf(5e-7, 150)
    assert total.deviation == pytest.approx(step.noise.scale * 2)
    wrong = noise * agreed.honest**0.5
    assert not chi2.ppf(5e-7, 150) < wrong @ wrong < chi2.isf(5e-7, 150)


def _heard(server):
    script = SumScript(server.agreed)
    answers = {name: {} for name in script.rounds}
    questions = {}
    for event in server.journal.events:
        if event.happening is Happening.ASKED:
            questions[event.round] = event.data
        if event.happening in (Happening.ANSWERED, Happening.JOINED):
            answers[event.round][event.owner] = event.data
    return type("Heard", (), {"questions": questions, "answers": answers})


def test_an_owner_lost_before_the_roll_is_left_out_of_the_step():
    agreed = agreement(ROWS)
    owners = simulated(agreed, ROWS)
    owners["west"] = Lossy(owners["west"], at=("sum-question", "0"))
    release = Server(agreed, owners).run()
    sums = {one["step"]: one["owners"] for one in release.settings["secure"]["sums"]}
    assert "west" not in sums["0-distances"]
    assert "west" in sums["1-mean"]  # and back in the next
    assert release.settings["secure"]["left_out"] == [
        {"owner": "west", "round": "ready-0-distances", "code": "lost"}
    ]
    assert abs(release.arrays["components"][0, 1]) > 0.98


def test_an_owner_lost_after_the_roll_ends_the_step_and_may_come_back():
    agreed = agreement(ROWS)
    owners = simulated(agreed, ROWS)
    owners["west"] = Lossy(owners["west"], at=("roll", "1"), times=1)
    server = Server(agreed, owners)
    with pytest.raises(QuorumLostError, match=r"west \(lost\)") as lost:
        server.run()
    assert lost.value.exit_code == 6
    again = server.run()  # the same roll, the same bytes
    plain = Server(agreed, simulated(agreed, ROWS)).run()
    assert np.array_equal(again.arrays["components"], plain.arrays["components"])


def test_a_server_stopped_after_any_event_goes_on_to_the_same_release():
    rows = tables(n=10, d=2)
    agreed = agreement(rows, variance="within")
    plain = Server(agreed, simulated(agreed, rows))
    expected = plain.run().arrays["components"]
    for last in range(len(plain.journal.events)):
        server = Server(agreed, simulated(agreed, rows))
        told = iter(range(10**6))

        def stop(event, told=told, last=last):
            if next(told) == last:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            server.run(stop)
        assert np.array_equal(server.run().arrays["components"], expected)


def test_too_few_owners_lose_the_quorum_before_anybody_pays(tmp_path):
    agreed = replace(agreement(ROWS), simulated=False)
    owners = {
        name: real_owner(agreed, name, rows, tmp_path / name, log=silent)
        for name, rows in ROWS.items()
        if name in ("east", "north")
    }
    with pytest.raises(QuorumLostError):
        Server(agreed, owners).run()
    assert all(owner._ledger.entries == () for owner in owners.values())


def test_real_owners_pay_for_every_step_and_note_what_it_costs_alone(tmp_path):
    rows = tables(n=60, d=2)
    agreed = agreement(rows, simulated=False, kind="covariance", bounds=((0.0,) * 2, (20.0,) * 2))
    owners = {
        name: real_owner(agreed, name, table, tmp_path / name) for name, table in rows.items()
    }
    release = Server(agreed, owners).run()
    assert not release.guarantee.simulated
    for owner in owners.values():
        entries = owner._ledger.entries
        assert [entry.cost for entry in entries] == [step.cost for step in agreed.steps]
        assert [entry.alone for entry in entries] == [step.alone for step in agreed.steps]
        assert entries[0].label == "trial 0-distances (if 3 are honest)"
    assert "the ledger of each owner" in release.statement()


def test_nothing_is_found_where_noise_hides_all_distances():
    rows = tables(n=4)
    agreed = agreement(rows, epsilon=0.1)
    with pytest.raises(NothingFoundError, match="variance = 'within'"):
        simulate(agreed, simulated(agreed, rows))


def test_noise_alone_is_no_distance():
    """A total of noise alone has a count above 3.5 deviations in two of five cases: none of 40 in
    one of 10^8. On a small table that is half of the records, and must not pass for a distance.
    """
    agreed = agreement(tables(n=10), epsilon=0.5)
    step, rng = agreed.steps[0], np.random.default_rng(0)
    deviation = step.noise.deviation(4) * 2.0**-step.noise.grid
    for _ in range(40):
        units = np.rint(rng.normal(scale=deviation, size=step.size)).astype(np.int64)
        with pytest.raises(NothingFoundError, match="no distance"):
            asked_next(agreed, [Total(step, units, tuple(agreed.owners), agreed.start, 1.0)])


def test_a_poisoned_sum_of_unit_rows_is_said_to_be_doubtful():
    agreed = agreement(ROWS, variance="within")
    owners = simulated(agreed, ROWS)
    evil = owners["west"]
    original = evil._sums.share
    evil._sums.share = lambda step, asked: original(step, asked) + (1 << 40)
    release = simulate(agreed, owners)
    assert "do not add up" in release.settings["secure"]["doubt"]


def test_a_journal_with_a_wrong_upload_is_refused():
    agreed = agreement(ROWS, variance="within")
    server = Server(agreed, simulated(agreed, ROWS))
    server.run()
    text = next(e for e in server.journal.events if e.happening is Happening.ANSWERED)
    stranger = replace(text, owner="nobody")
    server.journal.note(stranger)
    with pytest.raises(StateError, match="contradicts itself"):
        server.run()


def test_what_the_server_shows_is_what_the_script_makes():
    agreed = agreement(ROWS)
    server = Server(agreed, simulated(agreed, ROWS))
    server.run()
    heard = _heard(server)
    for step in agreed.steps:
        asked = decode(heard.questions[f"ready-{step.name}"], SumQuestion)
        assert asked.step == step.number
        members = decode(heard.questions[f"upload-{step.name}"], Roll).ready()
        assert [member.owner for member in members] == sorted(ROWS)
        for upload in heard.answers[f"upload-{step.name}"].values():
            assert decode(upload, Upload).masked.size == step.size
