# Each target makes `.venv` from a bare python3 on first use, and again when a lock changed.

PYTHON ?= python3
BIN := .venv/bin
RUNNABLE := .venv/.runnable
INSTALLED := .venv/.installed
# Where the programs of others lie; CI keeps them between its runs.
REAL ?= $(CURDIR)/.real
export AOP_REAL := $(REAL)
# One more than there are cores: tests wait for processes and for the disk.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Where nothing may be kept, each worker would rewrite each test module for itself.
# ROWS=first: of each table of cases the first row, ROWS=all: also those that a series leaves out; PART=2/3: the second third
# of the tests; COVER=1: with branch coverage.
PICK = $(if $(ROWS),--rows $(ROWS)) $(if $(PART),--part $(PART))
MEASURE = $(if $(COVER),--cov --cov-append --cov-report= --cov-fail-under=0)
# Folders of tests in memory, where there is room: syncing a file then costs nothing. What is killed or cut off stays on the disk.
MEMORY := $(shell df -Pk /dev/shm 2> /dev/null | awk 'NR == 2 && $$4 > 4000000 {print "TMPDIR=/dev/shm"}')
# Named at the end: the tests that a faster CI would gain most from.
SLOWEST = --durations 15 --durations-min 10
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(SLOWEST) $(PICK)
QUICK = -m "not slow and not soak and not real and not browser and not fleet"
# Compiled first: where PYTHONDONTWRITEBYTECODE is set, each of a thousand processes would compile for itself.
COMPILE = $(BIN)/python -m compileall -q -j 0
LOCK = UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-strip-extras --quiet $(LOCK_ARGS)

.DEFAULT_GOAL := help
.PHONY: help setup demo test covered again slow fleet web shots soak mutants nightly real conformance installed-real check tools format bench gates lock

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 13

setup: $(INSTALLED) ## make .venv with everything that the other targets need
	@echo "Ready: $(BIN)"

demo: $(RUNNABLE) ## run AOP on a small repository, with no account and no network
	PYTHONDONTWRITEBYTECODE= $(BIN)/aop demo

test: $(INSTALLED) ## run the tests but the slow ones, then say which requirements they claim (COVER=1: measure their coverage)
	$(if $(COVER),$(BIN)/coverage erase)
	$(COMPILE) src
	$(MEMORY) $(PYTEST) $(QUICK) $(MEASURE)
	@$(BIN)/python tests/requirements_covered.py

covered: $(INSTALLED) ## say how much `make test COVER=1` and then `make fleet COVER=1` reached: at least what pyproject.toml says
	@total=$$($(BIN)/coverage report --format=total) && \
	echo "coverage $$total %, $$(awk "BEGIN {printf \"%.2f\", 100 - $$total}") points short of 100 %"

again: $(INSTALLED) ## run the few tests that just failed three times alone; what passes then is named as unsteady
	$(BIN)/python tests/second_look.py

# Compiled first: a test fills up the disk, where Python would leave half of a compiled file.
slow: $(INSTALLED) ## run the tests that take long, most of them whole runs of `aop` with its agents
	$(COMPILE) src
	$(PYTEST) --dist load --maxschedchunk 1 -m slow

# Two at once: each file has a database of its own, and its tests wait for beats.
fleet: $(INSTALLED) ## run gates on workers of other machines, and kill, freeze and cut them off (needs PostgreSQL, network namespaces)
	$(COMPILE) src
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest tests/fleet -m fleet -n 2 --dist loadfile $(SLOWEST) $(PICK) $(MEASURE)

web: $(INSTALLED) ## drive the pages with a real Chromium, which has to be on this machine
	$(PYTEST) tests/web/browser -m browser

shots: $(INSTALLED) ## write pictures of every page, from the demo, into .shots/ (needs a Chromium)
	$(BIN)/python -m tests.web.browser.shots .shots

# Named first: only so does the process that prints the table load its hook.
soak: $(INSTALLED) ## break operations at the system calls that write (needs strace); kill a server, its 16 clients, and a run
	$(BIN)/python -m pytest tests/soak tests -m soak -n auto --dist worksteal -rs $(PICK)

mutants: $(INSTALLED) ## take out one control after the other: the tests that claim it must fail (MUTANTS="tokens gates/escape": only these)
	$(COMPILE) src
	$(BIN)/python -m tests.mutants.run --workers $(WORKERS) $(addprefix --only ,$(MUTANTS)) $(if $(PART),--part $(PART))

nightly: ## run everything, in slices of a few minutes, the oldest first; what was green for these inputs is not repeated (MINUTES=30: a part)
	$(PYTHON) .ci/stages.py nightly $(if $(MINUTES),--minutes $(MINUTES))

real: $(INSTALLED) $(REAL)/.installed $(REAL)/.outbound ## try AOP with the programs of others: conformance suite, inspector, coding agents, MCP servers, small projects (needs npm)
	$(PYTEST) tests/real -m real -rs

conformance: $(INSTALLED) $(REAL)/.installed ## what the MCP conformance suite and the inspector say (part of `make real`)
	$(BIN)/python -m pytest tests/real/test_conformance.py -m real -rs

check: $(INSTALLED) ## check format, style, types, the import stack, the generated files and the claimed requirement ids
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/aop tools check --docs
	$(BIN)/python tests/requirements_covered.py --document docs/requirements.md

tools: $(INSTALLED) ## write the files that are made from the code: contracts, docs/{tools,refusals,requirements}.md
	$(BIN)/aop tools write --docs
	$(BIN)/python tests/requirements_covered.py --document docs/requirements.md --write

format: $(INSTALLED) ## rewrite the files as `make check` wants them, as far as a machine can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(INSTALLED) ## measure start-up, tool calls and patches against their floors (EFFORT=--quick: every case once, no time is judged)
	$(COMPILE) src
	$(BIN)/python -m bench $(EFFORT) $(if $(PART),--part $(PART))

gates: $(INSTALLED) ## run AOP's own gates on this commit; AOP is a tool here, in an environment that gates do not see
	clone=$$(mktemp -d) && trap 'rm -rf "$$clone"' EXIT && git clone -q . "$$clone/aop" && git -C "$$clone/aop" checkout -q -B main && \
	$(PYTHON) requirements/install.py "$$clone/tool" requirements/run.lock && \
	PATH="$(CURDIR)/.venv/bin:$$PATH" "$$clone/tool/bin/aop" doctor --gates --repo "$$clone/aop"

lock: $(INSTALLED) ## write requirements/*.lock from pyproject.toml (LOCK_ARGS=--upgrade takes newer versions)
	$(LOCK) --extra dev --extra forge --extra models --extra otel --output-file requirements/dev.lock
	$(LOCK) --constraint requirements/dev.lock --no-annotate --output-file requirements/run.lock

# What AOP needs to run, and no more.
$(RUNNABLE): requirements/run.lock | $(BIN)/python
	$(PYTHON) requirements/install.py .venv requirements/run.lock
	@touch $@

$(INSTALLED): requirements/dev.lock | $(BIN)/python
	$(PYTHON) requirements/install.py .venv requirements/dev.lock
	@touch $(RUNNABLE) $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "AOP needs Python 3.11 or newer, and \`$(PYTHON)\` is not. Name one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }

installed-real: $(REAL)/.installed $(REAL)/.outbound

$(REAL)/.outbound: src/aop/adapters/tickets/setup/servers.py $(INSTALLED)
	@mkdir -p $(REAL)
	@if command -v npm > /dev/null; then \
		AOP_OUTBOUND_HOME=$(REAL)/outbound $(BIN)/aop outbound install jira confluence gitlab && touch $@; \
	else echo "npm is missing: what needs it is skipped."; fi

NPM_INSTALL := npm install --no-audit --no-fund --no-package-lock --loglevel=error --prefix

$(REAL)/.installed: tests/real/package.json tests/real/javascript/package.json
	@mkdir -p $(REAL)/javascript && cp $< $(REAL)/ && cp tests/real/javascript/package.json $(REAL)/javascript/
	@if command -v npm > /dev/null; then \
		$(NPM_INSTALL) $(REAL) && $(NPM_INSTALL) $(REAL)/javascript && touch $@; \
	else echo "npm is missing: what needs it is skipped."; fi
