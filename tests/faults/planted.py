"""The faults: where they are planted, what they say there, and which tests are to notice."""

from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "eigenveil"

CONFORMANCE = "tests/conformance/test_conformance.py"
REPLAY = "tests/conformance/test_replay.py"
NOISE_LAW = "tests/conformance/test_noise_law.py"
BASE = "tests/mechanisms/test_base.py"
STREAMING = "tests/estimators/test_streaming.py"
KEPT = "tests/estimators/test_stream_kept.py"
NEWEST = "tests/estimators/test_stream_newest.py"
PERSONS = "tests/estimators/test_stream_persons.py"
ARRIVALS = "tests/estimators/test_arrivals.py"


@dataclass(frozen=True)
class Fault:
    """A fault in one file."""

    name: str
    file: str  # under src/eigenveil
    changes: tuple[tuple[str, str], ...]  # what stands there once, and what is planted
    tests: tuple[str, ...]  # arguments of pytest

    def planted(self, text):
        """Return the text of the file with the fault."""
        for right, wrong in self.changes:
            if text.count(right) != 1:
                raise ValueError(
                    f"{self.name!r} does not fit {self.file}: {right!r} stands there "
                    f"{text.count(right)} times; plant it where that went"
                )
            text = text.replace(right, wrong)
        return text


def fault(name, file, right, wrong, *tests):
    return Fault(name, file, ((right, wrong),), tests)


LEAVES = [
    fault(
        "noise too small by a fifth",
        "mechanisms/covariance/gauss.py",
        'scale = noise_scale(query.sensitivity("frobenius"), self.mu)',
        'scale = 0.8 * noise_scale(query.sensitivity("frobenius"), self.mu)',
        NOISE_LAW,
        "-k",
        "gauss",
    ),
    fault(
        "a sensitivity without its sqrt(2)",
        "data/gram.py",
        '"frobenius": math.sqrt(2)',
        '"frobenius": 1.0',
        CONFORMANCE,
        "-k",
        "sensitivity and gauss",
    ),
    fault(
        "chunks that are summed whole",
        "data/gram.py",
        "_SUMMED_ROWS = 1 << 27",
        "_SUMMED_ROWS = 1 << 40",
        "tests/data/test_large_sums.py",
        "-k",
        "chunks",
    ),
    fault(
        "a sum that wraps around",
        "numerics/integers.py",
        "if most > _LARGEST_HELD:",
        "if most > 2 * _LARGEST_HELD:",
        "tests/numerics/test_integers.py",
        "-k",
        "refuses",
    ),
    fault(
        "an owner whose BLAS is inexact",
        "federated/secure/sums.py",
        "if not sums_are_exact():",
        "if not callable(sums_are_exact):",
        "tests/federated/secure/test_owner.py",
        "-k",
        "blas",
    ),
    fault(
        "readings that are compared by their lengths",
        "data/sources/readings.py",
        "compared = None if self.in_order else -1",
        "compared = None if self.in_order else 1",
        "tests/data/sources/test_readings.py",
    ),
    fault(
        "ids beside rows in another order",
        "data/sources/readings.py",
        "compared = None if self.in_order else -1",
        "compared = -1",
        "tests/data/sources/test_readings.py",
    ),
    fault(
        "persons of a loader that is read once, in any order",
        "data/sources/iterables.py",
        "if self.rereadable:\n            self.fingerprint()",
        "if self.rereadable:\n            pass",
        "tests/data/sources/test_readings.py",
    ),
    fault(
        "partitions that are compared by their lengths",
        "data/distributed/parts.py",
        "if not np.array_equal(marks[:, :-1], self._first[:, :-1]):",
        "if not np.array_equal(rows, self._lengths):",
        "tests/data/distributed/test_dask.py",
    ),
    fault(
        "partitions that are fetched one by one, whatever they hold",
        "data/distributed/parts.py",
        "if not np.array_equal(found.numbers[:-1], first[:-1]):",
        "if found.numbers[0] != first[0]:",
        "tests/data/distributed/test_dask.py",
    ),
    fault(
        "ids beside partitions in another order",
        "data/distributed/dask.py",
        "if not np.array_equal(before, now):",
        "if len(before) != len(now):",
        "tests/data/distributed/test_dask.py",
    ),
    fault(
        "compiled rows that leave the ball",
        "data/rows.c",
        "if (!(sum <= most))",
        "if (!(sum <= 4.0 * most))",
        "tests/data/test_compiled.py",
    ),
    fault(
        "rows clipped at the largest of the table",
        "mechanisms/base.py",
        "return gate.draw(self, second_moment(source, clip, gate.adjacency))",
        "own = max(float(abs(chunk).max()) for chunk in source.chunks())\n"
        "        clip = type(clip)(row_norm=own, on_invalid='zero')\n"
        "        return gate.draw(self, second_moment(source, clip, gate.adjacency))",
        REPLAY,
        "-k",
        "draws and gauss",
    ),
    fault(
        "noise that does not depend on the table",
        "numerics/random.py",
        "digest.update(np.ascontiguousarray(query).tobytes())",
        "pass",
        CONFORMANCE,
        "-k",
        "duplicate and gauss",
    ),
    fault(
        "a seed that repeats its draws",
        "numerics/random.py",
        "{self._seed} {next(self._draws)} {query.shape}",
        "{self._seed} {query.shape}",
        CONFORMANCE,
        "-k",
        "duplicate and gauss",
    ),
    fault(
        "quiet queries of the sparse vector technique",
        "mechanisms/scalars/sparse_vector.py",
        "noisy = add_noise(queries, scale, noise",
        "noisy = add_noise(queries, scale / 8, noise",
        "tests/mechanisms/test_scalars.py",
        "-k",
        "search",
    ),
    fault(
        "an exact threshold of the sparse vector technique",
        "mechanisms/scalars/sparse_vector.py",
        "threshold = add_noise(zero, scale / 2, noise, law=LAPLACE, grid=grid).units[0]",
        "threshold = zero.units[0]",
        "tests/mechanisms/test_scalars.py",
        "-k",
        "search",
    ),
    fault(
        "a bin of one row that shows too often",
        "mechanisms/scalars/histogram.py",
        "return 1 + scale * max",
        "return scale * max",
        "tests/mechanisms/test_scalars.py",
        "-k",
        "bin",
    ),
    fault(
        "a map of scores with the noise of one count",
        "data/scores.py",
        '"l2": math.sqrt(2) if public else 1.0,',
        '"l2": 1.0,',
        CONFORMANCE,
        "-k",
        "sensitivity and score",
    ),
    fault(
        "rows shown under the levels of others",
        "data/scores.py",
        "kinds[start : start + len(chunk)]",
        "np.sort(kinds)[start : start + len(chunk)]",
        REPLAY,
        "-k",
        "draws and level",
    ),
    fault(
        "a person counted in each of their cells",
        "data/scores.py",
        "(1 << self.BITS) // sizes[units]",
        "1 << self.BITS",
        "tests/data/test_scores.py",
        "-k",
        "person",
    ),
    fault(
        "a level of one person that shows too often",
        "mechanisms/scalars/levels.py",
        "return 1 + scale * -float",
        "return scale * -float",
        "tests/mechanisms/test_levels.py",
        "-k",
        "one_row",
    ),
    fault(
        "a person counted at each of their levels",
        "data/levels.py",
        "        counts.update(_most_frequent(named) for named in persons.values() if named)\n",
        "        counts.update(level for named in persons.values() for level in named)\n",
        "tests/mechanisms/test_levels.py",
        "-k",
        "person",
    ),
    fault(
        "Wishart noise that is too small by a half",
        "mechanisms/covariance/wishart.py",
        'query.sensitivity("nuclear")',
        '(query.sensitivity("nuclear") / 2)',
        NOISE_LAW,
        "-k",
        "wishart",
    ),
]

WRAPPERS = [
    fault(
        "centred: the mean is not paid for",
        "mechanisms/centred.py",
        "return compose(self.mean.cost(), self.inner.cost())",
        "return self.inner.cost()",
        CONFORMANCE,
        "-k",
        "cost and centred",
    ),
    fault(
        "centred: about the mean of the rows themselves",
        "mechanisms/centred.py",
        "centre = project_to_bounds(centre + rough.offset / present, start)",
        "centre = project_to_bounds(np.vstack([*source.chunks()]).mean(axis=0), start)",
        REPLAY,
        "-k",
        "draws and centred",
    ),
    fault(
        "located: about the mean of the rows themselves",
        "mechanisms/located.py",
        "centre = centre + rough.offset / present",
        "centre = np.nanmean(np.vstack([*some.chunks()]), axis=0)",
        REPLAY,
        "-k",
        "draws and located",
    ),
    fault(
        "lifted: the number of rows itself",
        "mechanisms/lifted.py",
        "count = None if public else max(1.0, corner / constant)",
        "count = None if public else float(sum(map(len, source.chunks())))",
        REPLAY,
        "-k",
        "draws and lifted",
    ),
    fault(
        "located: a search that is not paid for",
        "mechanisms/located.py",
        "(search.cost() for search in self.distances)",
        "(search.cost() for search in self.distances[1:])",
        CONFORMANCE,
        "-k",
        "cost and located",
    ),
    fault(
        "ranged: as far as the farthest row",
        "mechanisms/ranged.py",
        "radius = clipping_radius(found, clip, self.rows)",
        "far = (float(abs(row).max()) for chunk in source.chunks() for row in chunk)\n"
        "        radius = min(clip.row_norm, max(far))",
        REPLAY,
        "-k",
        "draws and ranged",
    ),
    fault(
        "scaled: scales of the rows themselves",
        "mechanisms/scaled.py",
        "return replace(self.inner.run(ScaledSource(source, scale), start, gate), scale=scale)",
        "scale = np.nanstd(np.vstack([*source.chunks()]), axis=0)\n"
        "        return replace(self.inner.run(ScaledSource(source, scale), start, gate), "
        "scale=scale)",
        REPLAY,
        "-k",
        "draws and scaled",
    ),
    fault(
        "scaled: scales that are not paid for",
        "mechanisms/scaled.py",
        "return compose(self.scale.cost(), self.inner.cost())",
        "return self.inner.cost()",
        CONFORMANCE,
        "-k",
        "cost and scaled",
    ),
    fault(
        "paired: neighbours in the table are pairs",
        "mechanisms/paired.py",
        "paired(source, gate.adjacency, gate.order)",
        "paired(source, gate.adjacency, np.arange)",
        REPLAY,
        "-k",
        "draws and paired",
    ),
    fault(
        "median-of-means: neighbours in the table are blocks",
        "mechanisms/scalars/median_of_means.py",
        "order = gate.order(public_rows(source))",
        "order = np.arange(source.count_units())",
        REPLAY,
        "-k",
        "draws and median",
    ),
    fault(
        "median-of-means: the order of rows moves a mean",
        "data/values.py",
        "order = np.lexsort((values, groups))",
        "order = np.argsort(groups, kind='stable')",
        "tests/mechanisms/test_median_of_means.py",
        "-k",
        "order_within",
    ),
    fault(
        "median-of-means: every row of a person counts",
        "data/values.py",
        "    if sizes is None:\n        return values, valid\n",
        "    if sizes is None or values.size:\n        return values, valid\n",
        "tests/mechanisms/test_median_of_means.py",
        "-k",
        "persons",
    ),
    fault(
        "staged: a variance without its noise",
        "mechanisms/pca/staged.py",
        "return float(gate.draw(self.values, query).values[0]), beyond.row_norm",
        "gate.draw(self.values, query)\n"
        "        return float(query.value.to_float().ravel()[0]), beyond.row_norm",
        REPLAY,
        "-k",
        "draws and staged",
    ),
    fault(
        "staged: variances that are not paid for",
        "mechanisms/pca/staged.py",
        "stages = (self.rank, self.inner, self.variances, self.scores)",
        "stages = (self.rank, self.inner, self.scores)",
        CONFORMANCE,
        "-k",
        "cost and staged",
    ),
]

READERS = [
    fault(
        "sparse rows with entries in the rows of others",
        "data/sources/sparse.py",
        "if places.size and not 0 <= places.min() <= places.max() < most:",
        "if False:",
        "tests/data/sources/test_npz.py",
        "-k",
        "malformed_sparse_archives",
    ),
    fault(
        "a person of two spellings is two",
        "data/sources/ids.py",
        "return _spelled_numeral(text) or _INFINITE.get(lower, text)",
        "return text",
        "tests/data/sources/test_ids.py",
        "-k",
        "one_person",
    ),
    fault(
        "a person of two spellings lies in two parts",
        "data/distributed/persons.py",
        "for label in persons.ids], dtype=np.int64)[numbers]",
        "for label in map(str, labels)], dtype=np.int64)",
        "tests/data/distributed/test_dask.py",
        "-k",
        "spelled",
    ),
    fault(
        "a first record of text passes for names",
        "data/sources/csv.py",
        "if not reading.names_columns:",
        "if False:",
        "tests/data/sources/test_asking.py",
        "-k",
        "first_record",
    ),
    fault(
        "continual: a person of two spellings comes on more days",
        "estimators/continual_persons.py",
        "labels = [person_label(label) for label in source.unit_ids()]",
        "labels = [str(label) for label in source.unit_ids()]",
        "tests/estimators/test_continual.py",
        "-k",
        "however_spelled",
    ),
    fault(
        "stream: a person of two spellings comes twice as often",
        "estimators/stream_persons.py",
        "labels = [person_label(label) for label in ids]",
        "labels = [str(label) for label in ids]",
        PERSONS,
        "-k",
        "however_spelled",
    ),
]

BOOKS = [
    fault(
        "execute: a release that no ledger hears of",
        "mechanisms/execute.py",
        "ledger=ledger,\n        noise=noise,\n        protects=request.unit,",
        "ledger=None,\n        noise=noise,\n        protects=request.unit,",
        "tests/estimators/test_estimators.py",
        "-k",
        "every_road_charges",
    ),
    fault(
        "execute: rows of a person are single rows",
        "mechanisms/execute.py",
        "protects=request.unit,\n        once",
        "once",
        "tests/estimators/test_groups.py",
    ),
    Fault(
        "gate: the charge comes after the noise",
        "mechanisms/base.py",
        (
            (
                "            self._commit()\n            self._spent",
                "            self._spent",
            ),
            (
                "return step.perturb(query, self._noise.bound_to(query.value.units))",
                "answer = step.perturb(query, self._noise.bound_to(query.value.units))\n"
                "        self._commit()\n"
                "        return answer",
            ),
        ),
        (BASE, "-k", "charge"),
    ),
    fault(
        "gate: steps are not added up",
        "mechanisms/base.py",
        "self._spent = (*self._spent, step.cost())",
        "self._spent = (step.cost(),)",
        CONFORMANCE,
        "-k",
        "beyond_its_share and centred",
    ),
    fault(
        "gate: an earlier batch may come again",
        "mechanisms/base.py",
        "or records.start < self._batch.start",
        "or records.start < 0",
        BASE,
        "-k",
        "batch",
    ),
    fault(
        "gate: noise that is not bound to the query",
        "mechanisms/base.py",
        "step.perturb(query, self._noise.bound_to(query.value.units))",
        "step.perturb(query, self._noise)",
        BASE,
        "-k",
        "seed",
    ),
    fault(
        "a stream that is opened again forgets what was spent",
        "mechanisms/base.py",
        "gate._batch = range(position, position)",
        "gate._batch = range(0, 0)",
        STREAMING,
        "-k",
        "opened_again",
    ),
    fault(
        "stream: records are noted as spent after their step",
        "estimators/stream_run.py",
        "        self.keep(False)  # spent, whatever happens next\n",
        "",
        KEPT,
        "-k",
        "noted_as_spent",
    ),
    fault(
        "stream: the ledger does not note what was spent",
        "estimators/stream_run.py",
        "            stream.account.advance(stream.name, batch.records.start, stream.spent, unit)",
        "            pass",
        NEWEST,
        "-k",
        "older_copy or two_copies",
    ),
    fault(
        "stream: a person comes as often as they like",
        "estimators/stream_persons.py",
        "self.taken(person) < most for person in persons",
        "True for person in persons",
        PERSONS,
        "-k",
        "stated_number or moves_so_many",
    ),
    Fault(
        "stream: the noise is for one record of a person",
        "estimators/stream_plan.py",
        (
            ("lambda mu: for_group(build(mu).cost(), max_arrivals)", "lambda mu: build(mu).cost()"),
            ("return for_group(self.total, self.max_arrivals)", "return self.total"),
        ),
        (PERSONS, "-k", "what_is_charged"),
    ),
    fault(
        "stream: persons wait in the order of the table",
        "estimators/stream_persons.py",
        "places = gate.order(len(self.persons))",
        "places = np.arange(len(self.persons))",
        PERSONS,
        "-k",
        "choice_and_order or moves_so_many",
    ),
    fault(
        "stream: a state forgets who came",
        "estimators/stream_state.py",
        "            arrays |= self.persons.arrays()\n",
        "            arrays |= StreamPersons().arrays()\n",
        PERSONS,
        "-k",
        "kept_between",
    ),
    fault(
        "stream: records are handed out again",
        "estimators/stream_state.py",
        "self.waiting = [rows[size:].copy()] if len(rows) > size else []",
        "self.waiting = [rows.copy()]",
        KEPT,
        "-k",
        "goes_on_where_it_stopped",
    ),
    fault(
        "stream: rows that came before are refused",
        "estimators/stream_run.py",
        "            self.stream.arrive(chunk, label)\n",
        "            if any(chunk.tobytes() == each.tobytes() for each in self.stream.waiting):\n"
        "                raise InvalidDataError('these rows came before')\n"
        "            self.stream.arrive(chunk, label)\n",
        ARRIVALS,
        "-k",
        "guess",
    ),
    fault(
        "running sums: rows that came before are refused",
        "estimators/continual_days.py",
        '        names = getattr(self, "feature_names_in_", None)\n        days.settings |= held',
        "        if any((each == counted.sums[-1]).all() for each in counted.sums[:-1]):\n"
        "            raise InvalidDataError('these rows came before')\n"
        '        names = getattr(self, "feature_names_in_", None)\n        days.settings |= held',
        ARRIVALS,
        "-k",
        "guess",
    ),
    fault(
        "an arrival without a label is kept in a state",
        "estimators/fitting.py",
        "if estimator.state is not None or estimator.ledger is not None:",
        "if False:",
        ARRIVALS,
        "-k",
        "needs_a_label",
    ),
    Fault(
        "running sums: a day on which nobody came is refused",
        "estimators/continual_days.py",
        (
            ("of_persons=self.days_per_group is not None)", "of_persons=False)"),
            ("        require_hidden_count(source, adjacency)\n", ""),
        ),
        (ARRIVALS, "-k", "without_anybody"),
    ),
    fault(
        "owner: the first answer is charged alone",
        "federated/records.py",
        'self._rows, "basis", charge=self.check(asked)',
        'self._rows, "basis", charge=self._plans.basis(asked).cost',
        "tests/federated/test_owner_once.py",
        "-k",
        "counts_in_epsilon",
    ),
    fault(
        "running sums: noise for one column of the factors only",
        "numerics/prefix_sums.py",
        "    moved = np.convolve(coefficients(horizon), np.ones(days, dtype=np.int64))[:horizon]",
        "    moved = coefficients(horizon)",
        "tests/mechanisms/test_continual.py",
        "-k",
        "no_choice_of_days",
    ),
    fault(
        "running sums: every day has the noise of a single release",
        "mechanisms/continual.py",
        "return GaussCov(mu=self.plan.mu * int(moved.max()) / root).perturb(query, noise)",
        "return GaussCov(mu=self.plan.mu).perturb(query, noise)",
        NOISE_LAW,
        "-k",
        "continual",
    ),
    fault(
        "running sums: a day is drawn on without being noted",
        "estimators/continual_days.py",
        '            ledger.advance(days.name, earlier, days.attempts, plan.protects, "draws")',
        "            pass",
        "tests/estimators/test_continual.py",
        "-k",
        "cut_off",
    ),
    fault(
        "running sums: a draw is published without being noted as kept",
        "estimators/continual_days.py",
        '            ledger.advance(days.name, kept - 1, kept, plan.protects, "draws")',
        "            pass",
        "tests/estimators/test_continual.py",
        "-k",
        "from_within",
    ),
    fault(
        "large sums: no room for columns outside a basis",
        "data/moment_columns.py",
        "widened(units, 3 + len(units).bit_length() // 2)",
        "widened(units, 2)",
        "tests/data/test_large_sums.py",
    ),
    fault(
        "large sums: a trace that wraps around",
        "numerics/integers.py",
        "    return sum(units.ravel().tolist())",
        "    return int(units.sum())",
        "tests/data/test_large_sums.py",
    ),
    fault(
        "levels: a row that stops the run is seen after the search is paid for",
        "mechanisms/found_levels.py",
        "count_checked(rows, plan.start.check)",
        "pass",
        "tests/estimators/test_preprocessing.py",
        "-k",
        "stops_the_run",
    ),
    fault(
        "levels: a release that the search has paid for",
        "estimators/fitting.py",
        "return found.before(execute(planned, source, ledger=ledger, noise=noise))",
        "return found.before(execute(planned, source, ledger=None, noise=noise))",
        "tests/estimators/test_preprocessing.py",
        "-k",
        "same_release",
    ),
    fault(
        "fit: a second thread pays for a release that is lost",
        "estimators/fitting.py",
        "if _FITTING.setdefault(key, mark) is not mark:",
        "if False:",
        "tests/estimators/test_charges.py",
        "-k",
        "second_thread",
    ),
    fault(
        "ledger: a last charge that is forgotten with its line end",
        "privacy/ledger_file.py",
        "return size if _is_whole(_read(file, size - start, start)) else start",
        "return start",
        "tests/privacy/test_ledger.py",
        "-k",
        "line_end",
    ),
    fault(
        "ledger: a charge that the total does not hear of",
        "privacy/ledger.py",
        "return _appended(file, ends, cost, spent, label, unit, alone, groups=groups)",
        "return _appended(file, ends, cost, ends.spent, label, unit, alone)",
        "tests/privacy/test_ledger.py",
        "-k",
        "add_up or compose_exactly",
    ),
    fault(
        "ledger: what is charged once is charged twice",
        "privacy/ledger.py",
        "if once and any(",
        "if not once and any(",
        "tests/federated/test_owner_once.py",
        "-k",
        "guard or interrupted or at_once",
    ),
]

STUDIO = [
    fault(
        "studio: a promise that holds for any table",
        "studio/planning.py",
        "    if not same:",
        "    if not isinstance(shown, str):",
        "tests/studio/test_runs.py",
        "-k",
        "changed_since or receipt",
    ),
    fault(
        "studio: a run that takes its table as it is by then",
        "cli/releasing.py",
        "        if table_version is not None:",
        "        if table_version == '':",
        "tests/studio/test_runs.py",
        "-k",
        "while_its_run_starts",
    ),
    fault(
        "studio: a table whose times were set back",
        "data/sources/version.py",
        "found.st_mtime_ns, found.st_ctime_ns,",
        "found.st_mtime_ns,",
        "tests/studio/test_runs.py",
        "-k",
        "changed_since",
    ),
    fault(
        "studio: a limit that starts at the same time pass",
        "studio/runs.py",
        "        with self._lock:  # the limit",
        "        with suppress():  # the limit",
        "tests/studio/test_runs.py",
        "-k",
        "keep_to_the_limit",
    ),
    fault(
        "studio: nothing was charged, says whoever ends without a word",
        "studio/runs.py",
        "            if since:",
        "            if not since:",
        "tests/studio/test_runs.py",
        "-k",
        "without_a_word or decide_nothing",
    ),
    fault(
        "studio: a folder named like an address",
        "studio/folder.py",
        'any(part.endswith(":") for part in parts)',
        "False",
        "tests/studio/test_folder.py",
    ),
]

ARTEFACTS = [
    fault(
        "releases: a page of another version is accepted by itself",
        "release/verdict.py",
        "if not (self.page_checked or self.vouched):",
        "if False:",
        "tests/release/test_earlier_formats.py",
        "-k",
        "by_itself",
    ),
    fault(
        "releases: a page of this version is not rendered again",
        "release/artefact.py",
        'if content["report.html"] != loaded.page().encode():',
        "if False:",
        "tests/report/test_page_check.py",
        "-k",
        "forged_page",
    ),
    fault(
        "releases: noise is stated without being recomputed",
        "release/consistency.py",
        "if expected is not None and not _close(scale, expected):",
        "if False:",
        "tests/release/test_contradictions.py",
        "-k",
        "paid_for or worth",
    ),
    fault(
        "releases: an entry of the ledger that cost less pays for a release",
        "release/receipts.py",
        "if covers(compose(*(entry.cost for entry in entries)), guarantee.cost):",
        "if entries:",
        "tests/release/test_contradictions.py",
        "-k",
        "cost_less",
    ),
]

FAULTS = [*LEAVES, *WRAPPERS, *BOOKS, *STUDIO, *READERS, *ARTEFACTS]
