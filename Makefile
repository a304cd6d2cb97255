# Every target prepares what it needs in .venv: only git, make and Python 3.11 or newer must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests of screens wait about as much as they work.
WORKERS = $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))')

.PHONY: demo test lint snapshots docs bench clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV) || { echo 'Python cannot make virtual environments here: on Debian and Ubuntu, apt install python3-venv'; exit 1; }
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --editable '.[excel,pdf]' --group test
	touch $@

$(VENV)/.linters: $(VENV)/.installed
	$(BIN)/pip install --quiet --group lint
	touch $@

demo: $(VENV)/.installed
	$(BIN)/proftui sample_logs/resnet50_training.nvprof.log

test: $(VENV)/.installed
	$(BIN)/python -m pytest -q -n $(WORKERS)

lint: $(VENV)/.linters
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Look at every changed snapshot before you commit it.
snapshots: $(VENV)/.installed
	$(BIN)/python -m pytest -q -n $(WORKERS) tests/screens tests/cli --snapshot-update

docs: $(VENV)/.installed
	$(BIN)/python docs/generate.py

# With the readers that ours are compared with.
bench: $(VENV)/.installed
	$(BIN)/pip install --quiet --group bench
	$(BIN)/python -m bench --json build/bench.json --page docs/performance.md

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
