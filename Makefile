# Everything runs in .venv, which is made when it is missing and refreshed when the pins change.
# It needs Python 3.11 or newer and nothing else; choose another one with `make PYTHON=python3.13 …`.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PINS := requirements.lock
PEERS := .venv/.peers
PEER_PINS := requirements-bench.lock

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format reference bench soak lock clean

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 8

setup: $(READY)  ## make or refresh .venv

demo: $(READY)  ## the main job end to end, with readable output
	@$(BIN)/omnigraph demo

# Three at once on two cores, since many tests wait for a lease to run out.
test: $(READY)  ## all tests but the soak tests
	$(BIN)/pytest -n 3

check: $(READY)  ## lint, format, types, the import rule, style and documentation
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/style tests/docs --ignore tests/docs/test_commands.py --ignore tests/docs/test_formats.py

format: $(READY)  ## let ruff fix and format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

reference: $(READY)  ## write the generated pages of the documentation anew
	$(BIN)/python -m docs._gen.cli_reference > docs/user/cli.md
	$(BIN)/python -m docs._gen.python_reference > docs/user/python.md

bench: $(PEERS)  ## measure beside other engines, for about forty minutes; for minutes with BENCH=quick
	$(BIN)/python -m bench

soak: $(READY)  ## the long tests that `make test` leaves out, and random cases
	$(BIN)/pytest -m "soak or hypothesis" --hypothesis-profile=soak

lock: $(READY)  ## pin the newest versions that pyproject.toml allows
	$(BIN)/uv pip compile -q --system-certs --upgrade --universal --python-version 3.11 --no-header --no-annotate \
	  --group dev pyproject.toml -o $(PINS)
	$(BIN)/uv pip compile -q --system-certs --upgrade --universal --python-version 3.11 --no-header --no-annotate \
	  --group bench --constraints $(PINS) -o $(PEER_PINS)
	@$(MAKE) --no-print-directory setup

clean:  ## remove .venv and every cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# uv installs three times faster than pip but does not read pip's settings. So a machine whose pip is told
# where to look for packages uses pip, and so does one where uv does not get through.
$(READY): $(PINS) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Omnigraph needs Python 3.11 or newer, \
	but $(PYTHON) is " + sys.version.split()[0] + ": choose one, as in make PYTHON=python3.13 setup.")'
	@$(BIN)/python -c 'import pip' 2>/dev/null && test -x $(BIN)/pip || \
	  { echo "making .venv, which takes about half a minute"; $(PYTHON) -m venv --clear .venv; }
	@if ! $(BIN)/pip config list | grep -E 'index-url|no-index|proxy' >/dev/null \
	  && $(BIN)/pip install -q --only-binary :all: "$$(grep '^uv==' $(PINS))" \
	  && $(BIN)/uv pip sync -q --system-certs --python $(BIN)/python $(PINS); \
	then :; else $(BIN)/pip install -q --no-deps --use-pep517 -r $(PINS); fi
	@$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	@touch $@

# The engines that only measurements need, and what draws them.
$(PEERS): $(PEER_PINS) $(READY)
	@$(BIN)/pip install -q --no-deps -r $(PEER_PINS)
	@touch $@
