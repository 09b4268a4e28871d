# Two commands do everything on a machine with Python 3.11+, make and git:
#   make demo    install into .venv and run the main job
#   make test    install the development extras and run the whole suite
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test browser pictures audit truth faults fuzz kill bench bench-all check wheel docs sheet clean

demo: .venv/installed
	$(BIN)/eigenveil demo

# Two workers on two cores: further threads of BLAS would only wait beside them.
test: .venv/installed-dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest

# Journeys through the studio in a real browser: apt-get install chromium chromium-driver.
browser: .venv/installed-browser
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 0 tests/browser

# The pictures of docs/studio.md, from the same journeys.
pictures: .venv/installed-browser
	$(BIN)/python -m tests.browser

# Attacks on every mechanism, wrapped ones too, and other laws in full: `make test` has them in little.
audit: .venv/installed-dev
	$(BIN)/python -m pytest -m audit

# Whether releases of real tables say what is true of them: made tables are judged by `make test`.
# TRUTH_SEEDS says how many fits of each table and budget.
TRUTH_SEEDS ?= 20

truth: .venv/installed-dev
	TRUTH_SEEDS=$(TRUTH_SEEDS) $(BIN)/python -m pytest -n 0 -s -m truth tests/truth

# Faults of privacy, planted in a copy of the source: tests of `make test` must notice each.
faults: .venv/installed-dev
	$(BIN)/python -m tests.faults

# Bad inputs to every reader and command, and processes killed at every change of a file: long forms
# of what `make test` does in little. CASES and KILLS say how many, SEED which.
CASES ?= 100000
KILLS ?= 10000
SEED ?= 1

fuzz: .venv/installed-dev
	$(BIN)/python -m tests.fuzz --cases $(CASES) --seed $(SEED)

kill: .venv/installed-dev
	$(BIN)/python -m tests.kill --kills $(KILLS) --seed $(SEED)
	$(BIN)/python -m tests.kill --faults --seed $(SEED)

# Style, types and layers: CI runs it beside the tests.
check: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The wheel, installed and used in an environment of its own, far from the repository.
wheel: .venv/installed-dev
	$(BIN)/python -m pytest -n 0 -m built tests/built/test_wheel.py

# The site, with its notebooks and examples run; a warning is an error. Then what can be said about it.
docs: .venv/installed-docs
	rm -rf build/site docs/gallery/examples
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs build/site
	$(BIN)/python -m pytest -n 0 -m built tests/built --ignore tests/built/test_wheel.py
	@echo open build/site/index.html

# Two pages for privacy officers, to print.
sheet: .venv/installed-docs
	$(BIN)/python docs/_ext/sheet.py for-officers.pdf

# Speed, engines and other libraries, as README and docs/scaling.md show them: about twenty minutes on two idle cores.
bench: .venv/installed-dev .venv-peers/installed
	$(BIN)/python benchmarks/run_all.py
	$(BIN)/python -m tests.documents --write

# Every measurement, ten minutes a script at most: some hours.
bench-all: .venv/installed-dev .venv-peers/installed
	$(BIN)/python benchmarks/run_all.py --all
	$(BIN)/python -m tests.documents --write

.venv-peers/installed: $(wildcard benchmarks/peers/*.txt)
	$(BIN)/python benchmarks/bench_peers.py --install
	touch $@

clean:
	rm -rf .venv .venv-peers

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("eigenveil needs Python 3.11 or newer: make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv

COMPILED := hatch_build.py src/eigenveil/numerics/build_rows.py src/eigenveil/numerics/rows.c

.venv/installed: .venv/bin/python pyproject.toml $(COMPILED)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/installed-browser: .venv/bin/python pyproject.toml $(COMPILED)
	$(BIN)/python -m pip install --quiet --editable '.[browser]'
	touch $@ .venv/installed-dev .venv/installed

.venv/installed-dev: .venv/bin/python pyproject.toml $(COMPILED)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ .venv/installed

.venv/installed-docs: .venv/installed-dev
	$(BIN)/python -m pip install --quiet --editable '.[dev,docs]'
	touch $@
