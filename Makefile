PYTHON ?= python3
VENV := .venv
DEMO_VENV := build/demo-venv
BIN := $(VENV)/bin
# Two at a time: the tests of one file stay in one process, so that imports are paid once.
WORKERS ?= 2

.PHONY: help demo test lint types contracts docs unit fuzz bench picture clean

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## */\1|/' | awk -F'|' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: $(DEMO_VENV)/installed  ## Set up, then calibrate a real network from its bundled logits and draw a picture
	$(DEMO_VENV)/bin/nishimori demo -o build/demo --force

test: $(VENV)/installed lint types contracts docs unit  ## Set up, then run every check that CI runs

lint: $(VENV)/installed  ## Format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/installed  ## Check types
	$(BIN)/mypy

contracts: $(VENV)/installed  ## Check that imports point down
	$(BIN)/lint-imports

docs: $(VENV)/installed  ## Build the documentation into build/site
	$(BIN)/mkdocs build --strict --quiet

unit: $(VENV)/installed  ## Tests, doctests, README lines and examples
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

fuzz: $(VENV)/installed  ## Read mutated files of every format for an hour
	$(BIN)/python tests/fuzz/run.py --minutes 60

bench: $(VENV)/installed  ## Time fitting against SciPy and scikit-learn
	$(BIN)/python bench/fit.py

picture: $(VENV)/installed  ## Draw the README's picture again
	$(BIN)/nishimori demo -o build/picture --force
	cp build/picture/demo.png docs/images/demo.png

clean:  ## Remove environments and build products
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/installed: pyproject.toml requirements/test.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nishimori needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements/test.txt
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

$(DEMO_VENV)/installed: pyproject.toml $(shell find src -name '*.py' -o -name '*.npz')
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nishimori needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(DEMO_VENV)
	$(DEMO_VENV)/bin/python -m pip install --quiet '.[plot]'
	@touch $@
