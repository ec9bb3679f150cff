# Every target sets itself up: a fresh machine needs python3 and make, nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup test lint format demo bench results clean

help:  ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(STAMP)  ## Make .venv and install the package with its development extras

# The stamp is written last, so an install that failed half-way is done again.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[dev]'
	@touch $@

test: setup  ## Run the tests and doctests; ARGS="..." goes to pytest
	$(BIN)/python -m pytest $(ARGS)

lint: setup  ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python

format: setup  ## Format the code and repair what ruff can repair
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: setup  ## Learn which rotations leave pictures unchanged, and show it: demo/demo.html
	$(BIN)/erlangen demo

bench: setup  ## Run every benchmark; each writes benchmarks/results/<name>.json
	@set -e; for file in benchmarks/bench_*.py; do echo "$$file"; $(BIN)/python "$$file"; done

results: demo  ## Redraw the figures and the results of the documentation
	$(BIN)/erlangen figures
	$(BIN)/erlangen reproduce --report
	cp demo/demo.png docs/images/demo.png

clean:  ## Remove caches and outputs; .venv stays
	rm -rf build dist demo gallery .hypothesis .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
