# Every target prepares what it needs in .venv: only git, make and Python 3.11 or newer must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests of screens wait about as much as they work.
WORKERS = $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))')
# A worker has tests that lie together: it reads each sample once.
PYTEST = $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal
# Without compiled files every worker, and every process that a test starts, would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

# The workers share the cores. The slow tests and all tests run with as many threads of Polars as in use.
test: export POLARS_MAX_THREADS = 1

.PHONY: demo test test-slow test-all lint snapshots docs bench clean

# What the program needs to run; the other stamps add the tools of one task each.
$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV) || { echo 'Python cannot make virtual environments here: on Debian and Ubuntu, apt install python3-venv'; exit 1; }
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.test: $(VENV)/.run
	$(BIN)/pip install --quiet --group test
	touch $@

$(VENV)/.lint: $(VENV)/.run
	$(BIN)/pip install --quiet --group lint
	touch $@

demo: $(VENV)/.run
	$(BIN)/proftui sample_logs/resnet50_training.nvprof.log

# What a change needs: every test but the slow ones.
test: $(VENV)/.test
	$(PYTEST) --durations=20

# Real processes, terminals, clusters, benchmarks and long searches.
test-slow: $(VENV)/.test
	$(PYTEST) -m slow --durations=20

# Everything, and every property with hundreds of random examples.
test-all: $(VENV)/.test
	$(PYTEST) -m "" --hypothesis-profile=thorough

lint: $(VENV)/.lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/codespell tui tests bench docs/*.py
	$(BIN)/python docs/check_words.py

# Look at every changed snapshot before you commit it.
snapshots: $(VENV)/.test
	$(PYTEST) -m "" tests/screens tests/widgets tests/cli --snapshot-update

# The tables of the README, and its animated picture, recorded from the program.
docs: $(VENV)/.run
	$(BIN)/pip install --quiet --group docs
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/record.py

# With the readers that ours are compared with.
bench: $(VENV)/.test
	$(BIN)/pip install --quiet --group bench
	$(BIN)/python -m bench --json build/bench.json --page docs/performance.md

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
