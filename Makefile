# Every target sets up what it needs: Python 3.11+, make and git are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready

.PHONY: demo test test-slow fuzz coverage two-hosts lint types format docs wheel clean

demo: $(READY)
	$(BIN)/sswim demo

# One process per core, each with one thread: small matrices are not worth sharing.
test: lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" --numprocesses auto --dist worksteal

test-slow: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow --numprocesses auto --dist worksteal

# Random tables, settings, files and interruptions; see docs/fuzzing.md. SCALE=1 takes two
# hours of one core. Shapes are checked by `make test`.
SCALE ?= 0.03
fuzz: $(READY)
	OMP_NUM_THREADS=1 SSWIM_FUZZ_SCALE=$(SCALE) \
		$(BIN)/python -m pytest tests/fuzz -o addopts=-ra --numprocesses auto --dist worksteal

# Line coverage of the fast tests.
coverage: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" --numprocesses auto --dist worksteal \
		--cov=sswim --cov=sswim_lab --cov-report=term:skip-covered

# Training on two hosts, which are network namespaces of this machine; only root can make them.
two-hosts: $(READY)
	$(BIN)/python lab/benchmarks/two_hosts.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Builds the documentation site, executes the examples of its gallery and checks its links.
SITE := docs/_build/html
docs: $(DOCS_READY)
	@echo 'Building the site and executing its examples: some minutes.'
	rm -rf $(SITE)
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet \
		--warning-file docs/_build/warnings.txt docs $(SITE)
	$(BIN)/python scripts/check_site.py $(SITE) docs/_build/warnings.txt

# Builds the wheels of the library and of the lab, installs the library's alone into an empty environment,
# runs the README's lines there, and then adds the lab's.
wheel: $(READY)
	$(BIN)/python -m build --wheel --outdir dist
	$(BIN)/python -m build --wheel --outdir dist lab
	$(PYTHON) scripts/check_wheel.py dist

clean:
	rm -rf $(VENV) docs/_build docs/gallery docs/reference

$(READY): pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt \
		--editable ".[dev,maps,ax,optuna]" --editable "./lab[peers]"
	touch $@

$(DOCS_READY): $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[docs]"
	touch $@
