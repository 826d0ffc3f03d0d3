# Every target sets up what it needs: a machine with Python 3.11+, make and git is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-slow two-hosts lint types format clean

demo: $(READY)
	$(BIN)/sswim demo

# One process per core, each with one thread: small matrices are not worth sharing.
test: lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" --numprocesses auto --dist loadfile

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

# Training on two hosts, which are network namespaces of this machine; only root can make them.
two-hosts: $(READY)
	$(BIN)/python benchmarks/two_hosts.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev,baselines]"
	touch $@
