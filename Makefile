# Everything runs in the project's own virtual environment; nothing is installed by hand.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Most modules of most packages are never imported: bytecode of the others is written when they are.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
PIP    := $(BIN)/python $(INSTALL)
MADE   := $(VENV)/.made
STAMP  := $(VENV)/.installed
DEV    := $(VENV)/.installed-dev
KERNELS := $(VENV)/.installed-kernels
BUILDER := $(VENV)/builder
BUILT  := $(VENV)/.built-kernels
REACT  := clients/react/node_modules/.package-lock.json
SOAK_S ?= 3600
SOAK_KILLS ?= 1000
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --durations=20 --durations-min=5
LOCK   := uv pip compile --quiet --generate-hashes --universal --no-annotate --no-header --no-emit-index-url --no-emit-package prosem-client

# Tests and demos start hundreds of processes: each would compile every module again where an environment forbids bytecode.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install kernels tools demo serve test tests images wheels docs first-answer style check format stress soak bench acceptance lock clean \
	example-price-alerts example-drivers example-boards example-existing-postgresql
install: $(STAMP)

$(MADE):
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(STAMP): $(MADE) requirements.txt pyproject.toml clients/python/pyproject.toml
	$(PIP) --require-hashes -r requirements.txt
	$(PIP) --no-deps --no-build-isolation --editable clients/python
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# PySpark comes as source alone: the wheel that is built of its jars, and unpacked at once, need not be compressed.
$(DEV): $(STAMP) requirements-dev.txt
	$(PIP) --config-settings=--build-option=--compression=stored --require-hashes -r requirements-dev.txt
	@touch $@

kernels: $(KERNELS)      ## the compiled structures, where there is a C++ compiler; everything works without them

# In an environment of its own, so that it may go on while packages are installed, which come first.
$(BUILT): $(MADE) requirements-kernels.txt kernels/pyproject.toml kernels/CMakeLists.txt $(wildcard kernels/*/*.*)
	@if command -v $${CXX:-c++} > /dev/null; then \
		echo "building the kernels"; \
		$(PYTHON) -m venv $(BUILDER) && rm -rf $(BUILDER)/wheel && \
		nice $(BUILDER)/bin/python $(INSTALL) --require-hashes -r requirements-kernels.txt && \
		nice $(BUILDER)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
			--wheel-dir $(BUILDER)/wheel ./kernels && touch $@; \
	else \
		echo "no C++ compiler: the kernels are not built, the structures in Python are used"; \
	fi

$(KERNELS): $(STAMP) $(BUILT)
	@if [ -e $(BUILT) ]; then $(PIP) --no-deps --no-index --force-reinstall $(BUILDER)/wheel/*.whl && touch $@; fi

demo: install            ## a live stock market on an embedded PostgreSQL
	$(BIN)/prosem demo

example-price-alerts: install           ## alerts by webhook when a price has moved far enough
	$(BIN)/python -m examples.price_alerts

example-drivers: install                ## a map of moving drivers around a moving position
	$(BIN)/python -m examples.drivers_near_me

example-boards: install $(REACT)        ## a leaderboard and an order board in React
	$(BIN)/python -m examples.boards

example-existing-postgresql: install    ## tables of an existing database, seen by tenant
	$(BIN)/python -m examples.existing_postgresql

$(REACT): clients/react/package-lock.json
	npm ci --prefix clients/react --no-audit --no-fund --loglevel=error

serve: install           ## the server alone
	$(BIN)/prosem serve

tools: $(DEV)            ## what the tests need beside Python: a browser, Node.js
	@tests/tools.sh $(BIN)/python

test:                            ## style, types, layers, and everything that must hold, on real parts
	@$(MAKE) --no-print-directory --jobs 2 style tests

tests: tools kernels             ## the tests alone
	$(PYTEST)

images: tools            ## the documentation's screenshots, taken by the tests of the console
	$(BIN)/python -m pytest --images tests/api/test_console.py tests/api/test_console_views.py tests/api/test_console_pages.py tests/examples

wheels: $(STAMP)         ## the wheels of the server and of the Python client, in dist
	rm -rf dist build/lib build/bdist.* clients/python/build
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . ./clients/python

docs: $(DEV)             ## the documentation as a site with search, in build/site
	$(BIN)/python -m docs.site

first-answer: tools      ## the time from git clone to an answer that changes in the browser
	$(BIN)/python -m tests.first_answer

style: $(DEV)            ## style, types, and the audit of dependencies (offline)
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.audit

check: style             ## the same, and layers
	$(BIN)/python -m pytest tests/test_layers.py

format: $(DEV)
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

stress: tools kernels            ## the long checks, seeds printed
	$(PYTEST) --stress

soak: tools kernels              ## what takes longer: kills under load, a mixed load and the simulation for SOAK_S seconds each, backtests beside a server, the kit on every network, images
	$(BIN)/python -m tests.soak --kills $(SOAK_KILLS)
	$(BIN)/python -m tests.soak --seconds $(SOAK_S) --image docs/images/soak.svg
	$(BIN)/python -m tests.simulation --seconds $(SOAK_S)
	$(BIN)/python -m tests.exactness
	$(BIN)/python -m tests.support.kit
	$(BIN)/python -m tests.containers

bench: $(DEV) kernels            ## every benchmark at full size
	$(BIN)/prosem bench all

lock:                    ## refresh the pinned requirements (hashes, no registry address)
	$(LOCK) --extra nats pyproject.toml build-requirements.in -o requirements.txt
	$(LOCK) --extra dev -c requirements.txt pyproject.toml build-requirements.in -o requirements-dev.txt
	$(LOCK) -c requirements-dev.txt kernels/build-requirements.in -o requirements-kernels.txt

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .hypothesis
