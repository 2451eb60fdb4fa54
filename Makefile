# Everything runs in the project's own virtual environment; nothing is installed by hand.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
STAMP  := $(VENV)/.installed
DEV    := $(VENV)/.installed-dev
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
LOCK   := uv pip compile --quiet --generate-hashes --universal --no-annotate --no-header --no-emit-index-url --no-emit-package prosem-client

.PHONY: install tools demo serve test check format stress bench acceptance lock clean
install: $(STAMP)

$(STAMP): requirements.txt pyproject.toml clients/python/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r requirements.txt
	$(PIP) --no-deps --no-build-isolation --editable clients/python
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): $(STAMP) requirements-dev.txt
	$(PIP) --require-hashes -r requirements-dev.txt
	@touch $@

demo: install            ## a live stock market on an embedded PostgreSQL
	$(BIN)/prosem demo

serve: install           ## the server alone
	$(BIN)/prosem serve

tools: $(DEV)            ## what the tests need beside Python: a browser, Node.js
	@tests/tools.sh $(BIN)/python

test: tools check        ## style, types, layers, and everything that must hold, on real parts
	$(PYTEST)

check: $(DEV)            ## style, types and layers
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layers.py

format: $(DEV)
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

stress: tools            ## the long checks, seeds printed
	$(PYTEST) --stress

bench: $(DEV)            ## every benchmark at full size
	$(BIN)/prosem bench all

lock:                    ## refresh the pinned requirements (hashes, no registry address)
	$(LOCK) --extra nats pyproject.toml build-requirements.in -o requirements.txt
	$(LOCK) --extra dev -c requirements.txt pyproject.toml build-requirements.in -o requirements-dev.txt

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .hypothesis
