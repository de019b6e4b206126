# Penstock: everything a developer does, by one name each. `make` alone lists them.
# Needs make, a POSIX shell and Python 3.11 or newer; the rest is fetched by pip (and Java by apt, if root).

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.penstock-installed
PLAIN := $(VENV)/.penstock-plain
RELEASE := .cache/release
DOCS := .cache/docs
BASE ?= python3.11
ARGS ?=
PEERS ?=
SEEDS ?= 1000
MINUTES ?= 10
HOURS ?= 1
SHUFFLE ?=
QUICK_SIM := $(addprefix tests/sim/test_sim_,parts.py found.py time.py guide.py)
PYTEST := $(BIN)/python -m pytest $(if $(SHUFFLE),--shuffle $(SHUFFLE))
# Put before what does nothing but compute, when it runs beside what also waits: the longest runs end sooner.
SPARE ?=

# Modules stay compiled, also where the environment says otherwise: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help venv java servers demo docs dist test-matrix test test-quick quick-parts quick-jobs test-unit test-engine test-console test-sim test-planted test-spark test-kills test-clusters lint check bench bench-batch bench-nexmark bench-sinks simulate chaos soak flat-memory matrix clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

venv: $(STAMP) ## Make the virtual environment (VENV=path for another place than .venv)

$(STAMP): pyproject.toml constraints.txt scripts/ensure_venv.sh
	@sh scripts/ensure_venv.sh "$(VENV)"
	@touch "$(STAMP)" "$(PLAIN)"

# What people use, without what developers do: a fifth of the packages, 0.8 GB in place of 2.2.
$(PLAIN): pyproject.toml constraints.txt scripts/ensure_venv.sh
	@sh scripts/ensure_venv.sh "$(VENV)" plain
	@touch "$(PLAIN)"

java: ## Check for Java 17 or newer, and install it if that is possible here
	@sh scripts/ensure_java.sh

servers: ## Check for the servers that tests use, and install what is missing if that is possible here
	@sh scripts/ensure_servers.sh

demo: java $(PLAIN) ## Run the demonstration (ARGS="..." are passed on)
	@echo "Running the demonstration (half a minute) ..."
	@$(BIN)/penstock demo $(ARGS)

docs: $(DOCS)/.installed ## Build the documentation site into .cache/site, and crawl it for broken links
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build  # with --quiet, no warning would count
	@$(DOCS)/bin/python scripts/docs_check.py .cache/site
	@echo "Open .cache/site/index.html"

$(DOCS)/.installed: pyproject.toml constraints.txt scripts/ensure_venv.sh
	@sh scripts/ensure_venv.sh "$(DOCS)" docs
	@touch $@

dist: java $(RELEASE)/.installed ## Build sdist and wheel into dist, and try the wheel in an empty environment
	@$(RELEASE)/bin/python scripts/build_dist.py
	@sh scripts/try_wheel.sh dist/*.whl $(BASE)

test-matrix: java $(RELEASE)/.installed ## Try the wheel with every Python and PySpark that it is for, as far as they are here
	@$(RELEASE)/bin/python scripts/build_dist.py
	@sh scripts/test_matrix.sh dist/*.whl

$(RELEASE)/.installed: pyproject.toml constraints.txt
	@sh scripts/ensure_venv.sh "$(RELEASE)" release
	@touch $@

test: java ## All tests and all checks, in eight runs side by side (SHUFFLE=seed for any order)
	@$(MAKE) --no-print-directory --jobs=2 venv servers
	@$(BIN)/python -m compileall -q penstock  # or each of the eight does it
	@echo "Eight runs side by side; each is shown when it has ended."
	@$(MAKE) --no-print-directory --jobs=8 SPARE="nice -n 10" --output-sync=target test-kills test-spark test-engine test-console test-unit test-sim test-planted lint

test-quick: venv ## A part of the tests in two minutes, without Spark and servers: for while you write
	@echo "Two test runs side by side; each is shown when it has ended."
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target quick-parts quick-jobs

quick-parts: venv
	@PENSTOCK_TEST_SERVERS=no $(PYTEST) -m "not slow" tests/unit --ignore tests/unit/connectors --ignore tests/unit/state

quick-jobs: venv
	@PENSTOCK_TEST_SERVERS=no $(PYTEST) -m "not slow" tests/unit/connectors tests/unit/state tests/semantics $(QUICK_SIM)

test-unit: venv ## Only the tests of single parts
	$(SPARE) $(PYTEST) tests/unit

test-engine: venv ## Only the tests of whole jobs in one process, which wait for servers and clocks
	$(PYTEST) tests/integration tests/semantics

test-console: venv ## Only the tests of the web page, in a browser
	$(PYTEST) tests/console

test-sim: venv ## Only the simulator and the tests of properties, which do nothing but compute
	$(SPARE) $(PYTEST) tests/sim tests/property --ignore-glob "*/test_sim_mutations*"

test-planted: venv ## Only the bugs that are planted in the engine for the simulator to find
	$(SPARE) $(PYTEST) tests/sim/test_sim_mutations*.py

test-spark: venv java ## Only the tests with a Spark session in which processes are not killed again and again
	$(PYTEST) tests/spark -m "not kills and not clusters"

test-kills: venv java ## Only the tests with a Spark session that kill processes again and again
	$(PYTEST) tests/spark -m kills

test-clusters: venv java ## Only what `make test` leaves out: standalone, YARN and Connect by spark-submit (ten minutes)
	@sh scripts/ensure_servers.sh clusters
	$(PYTEST) tests/spark -m clusters

lint: venv ## Lint, formatting and types
	$(SPARE) $(BIN)/ruff check .
	$(SPARE) $(BIN)/ruff format --check .
	$(SPARE) $(BIN)/python -m mypy

check: lint ## Lint, formatting, types, layers and sizes, without running anything
	$(PYTEST) tests/unit/test_layers.py tests/unit/test_sizes.py

bench: venv java ## Run the benchmarks (PEERS=1 runs the peers beside them)
	@$(BIN)/python benchmarks/run.py $(if $(PEERS),--peers) $(ARGS)

bench-batch: venv java ## Hourly counts of 50 million events: BATCH beside Spark SQL and STREAMING
	@$(BIN)/python benchmarks/batch.py $(ARGS)

bench-nexmark: venv java ## The queries of Nexmark, checked against DuckDB (PEERS=1 runs Flink SQL beside them)
	@$(BIN)/python benchmarks/nexmark/run.py $(if $(PEERS),--flink) $(ARGS)

bench-sinks: venv java servers ## Measure the database sinks and write their guide (ARGS=--quick only prints, in a minute)
	@$(BIN)/python benchmarks/sinks/run.py $(ARGS)

simulate: venv ## Play simulated clusters with faults (SEEDS=1000 in all)
	@$(BIN)/python scripts/simulate.py --seeds $(SEEDS) $(ARGS)

chaos: venv java ## Disturb jobs on Spark at random and check every record (MINUTES=10)
	@$(BIN)/python scripts/chaos.py --minutes $(MINUTES) $(ARGS)

soak: venv java ## Keep a job on Spark at work, kill its processes, and fail on growth or a wrong record (HOURS=1)
	@$(BIN)/python scripts/soak.py --hours $(HOURS) $(ARGS)

flat-memory: venv java ## Large rows behind a slow consumer on Spark: print its memory, fail if it grows (MINUTES=10)
	@$(BIN)/python scripts/flat_memory.py --minutes $(MINUTES) $(ARGS)

matrix: venv java servers ## Kill workers and drivers at every point of a commit, and write docs/guides/fault-matrix.md
	@$(BIN)/python scripts/write_fault_matrix.py $(ARGS)

clean: ## Remove the virtual environment, caches and what the demo and benchmarks left
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .bench .demo .soak build dist *.egg-info
	rm -rf spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
