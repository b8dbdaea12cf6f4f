PYTHON ?= python3
VENV := .venv
QUICK_VENV := build/quick-venv
DEMO_VENV := build/demo-venv
RELEASE_VENV := build/release-venv
INTEGRATIONS_VENV := build/integrations-venv
BIN := $(VENV)/bin
QUICK := $(QUICK_VENV)/bin
RELEASE := $(RELEASE_VENV)/bin
INTEGRATIONS := $(INTEGRATIONS_VENV)/bin
# With which a release is installed and used, after it is built.
PYTHONS ?= $(PYTHON)
# Two at a time: the tests of one file stay in one process, so that imports are paid once. Files, and the tests within a file, come
# in an order that pytest-randomly draws. It prints the seed, with which `make unit ORDER=--randomly-seed=N` repeats the order.
WORKERS ?= 2
ORDER ?=
# One thread per worker: more threads than cores wait for each other, and take several times as long.
# Byte code is written even where the environment says not to: each worker, and many processes that tests start, would compile all
# modules again.
PYTEST = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(1)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ORDER)
# Modules whose types can be checked without the packages that they would import.
LIGHT_MODULES = $(shell grep -rLE '^ *(import|from) (dask|lightning|pytorch_lightning|torch|triton)\b' src paper/src --include='*.py')
define LINT
	$(1)/ruff format --check .
	$(1)/ruff check .
	$(1)/python tests/helpers/names.py src paper/src
endef

.PHONY: help demo quick test lint full-lint types contracts docs byte-code native unit fuzz integrations bench picture minimum public-types release clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1|/' | awk -F'|' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: $(DEMO_VENV)/installed  ## Set up, then calibrate a real network from its bundled logits and draw a picture
	$(DEMO_VENV)/bin/nishimori demo -o build/demo --force

quick: $(QUICK_VENV)/installed native lint  ## Set up a light environment, then what two minutes can check without PyTorch, JAX, Dask and a browser
	$(QUICK)/lint-imports
	$(QUICK)/mypy --follow-imports=silent $(LIGHT_MODULES)
	NISHIMORI_TESTS=quick $(call PYTEST,$(QUICK)) -m 'not slow and not wheel' -r fE

test: $(VENV)/installed  ## Set up, then run every check that CI runs
	$(MAKE) -j2 -Otarget byte-code types full-lint contracts docs
	$(MAKE) unit

lint: $(QUICK_VENV)/installed  ## Format and lint
	$(call LINT,$(QUICK))

full-lint: $(VENV)/installed
	$(call LINT,$(BIN))

types: $(VENV)/installed  ## Check types
	$(BIN)/mypy

contracts: $(VENV)/installed  ## Check that folders import only from earlier stages
	$(BIN)/lint-imports

docs: $(VENV)/installed  ## Build the documentation into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Beside the check of types, which uses one core: otherwise each test process would compile the same packages and tests at its start.
# What cannot be imported is an error of `unit`, not of this.
byte-code: $(VENV)/installed
	@-$(call PYTEST,$(BIN)) -n 0 --collect-only -q > /dev/null 2>&1

native:  ## Compile the C kernel in place, if its files have changed
	$(PYTHON) hatch_build.py

unit: $(VENV)/installed native  ## Tests, doctests, README lines and examples
	$(call PYTEST,$(BIN))

fuzz: $(VENV)/installed  ## Read mutated files of every format for an hour
	$(BIN)/python tests/helpers/fuzz/run.py --minutes 60

# In an environment of its own, because tests are skipped or not by the packages that are there.
integrations: $(INTEGRATIONS_VENV)/installed native  ## Run the pages about LightGBM, XGBoost, SHAP and trackers, and the tests of converters and trainers
	@echo "Tried versions:"; $(INTEGRATIONS)/python -m pip freeze -r requirements/integrations.txt | sed '/^## /,$$d' | grep ==
	$(call PYTEST,$(INTEGRATIONS)) -n 0 tests/integrations tests/contract/test_documentation.py tests/contract/test_pipelines.py \
		-k 'integrations or openai or boosting or trust or _logs_'

bench: $(VENV)/installed  ## Time fitting against SciPy and scikit-learn
	$(BIN)/python bench/speed/fit.py

picture: $(VENV)/installed  ## Draw the README's picture again
	$(BIN)/nishimori demo -o build/picture --force
	cp build/picture/demo.png docs/images/demo.png

# In an environment with requirements/minimum.txt and both distributions. Newer versions of what those need may warn of them, so warnings are not errors.
minimum:  ## Test with the lowest versions of dependencies, which must be installed
	$(PYTHON) tests/helpers/smoke.py
	NISHIMORI_TESTS=quick OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n $(WORKERS) --dist loadfile -W default -m 'not slow and not wheel' -r fE \
		tests/fit tests/maps tests/methods tests/sums tests/evaluation tests/plot tests/test_metrics.py

# Of an installed wheel, as users have it. Pyright downloads itself when it first runs.
public-types: $(RELEASE_VENV)/installed  ## Check that type checkers know the types of all public names
	$(RELEASE)/python -m pip install --quiet --no-compile --force-reinstall --no-deps .
	cd build && PATH=$(CURDIR)/$(RELEASE):$$PATH pyright --verifytypes nishimori --ignoreexternal

release: $(RELEASE_VENV)/installed  ## Build what is published into dist, twice, check it, and install it: PYTHONS="python3.11 python3.12"
	$(RELEASE)/python tests/helpers/release.py dist $(PYTHONS)

clean:  ## Remove environments and build products
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Without --no-compile, pip compiles all modules of all packages, most of which are never imported.
$(VENV)/installed: pyproject.toml paper/pyproject.toml requirements/test.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nishimori needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -r requirements/test.txt
	NISHIMORI_REQUIRE_NATIVE=1 $(BIN)/python -m pip install --quiet -e . -e ./paper
	@touch $@

$(INTEGRATIONS_VENV)/installed: pyproject.toml paper/pyproject.toml requirements/test.txt requirements/integrations.txt
	$(PYTHON) -m venv $(INTEGRATIONS_VENV)
	$(INTEGRATIONS)/python -m pip install --quiet --no-compile -r requirements/test.txt -r requirements/integrations.txt
	NISHIMORI_REQUIRE_NATIVE=1 $(INTEGRATIONS)/python -m pip install --quiet -e . -e ./paper
	@touch $@

$(QUICK_VENV)/installed: pyproject.toml paper/pyproject.toml requirements/quick.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nishimori needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(QUICK_VENV)
	$(QUICK)/python -m pip install --quiet --no-compile -r requirements/quick.txt
	NISHIMORI_REQUIRE_NATIVE=1 $(QUICK)/python -m pip install --quiet -e . -e ./paper
	@touch $@

$(DEMO_VENV)/installed: pyproject.toml $(shell find src -name '*.[pych]*' -o -name '*.npz')
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nishimori needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(DEMO_VENV)
	$(DEMO_VENV)/bin/python -m pip install --quiet '.[plot]'
	@touch $@

$(RELEASE_VENV)/installed: requirements/release.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nishimori needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(RELEASE_VENV)
	$(RELEASE)/python -m pip install --quiet --no-compile -r requirements/release.txt
	$(RELEASE)/python -m pip install --quiet --no-compile '.[plot,torch]'
	@touch $@
