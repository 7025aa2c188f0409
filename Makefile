# Every verb does its own set-up: a machine needs Python 3.11, make and a package index.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
VENV4 := .venv4
SOURCES := keymark/__init__.py keymark/__main__.py keymark/cli.py table indexes datasets harness reports run_bench.py tests

export TZ := UTC
# Each of the thousand processes that the tests start would compile the sources anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install lint types format test test-all test-engines test-spark4 test-cluster test-long test-faults jars interop hbase hbase-stop bench site lock lock-engines gate clean

help: ## list the verbs
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(STAMP) ## build .venv from requirements.lock

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Keymark needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	# Kept kernels name the classes of their arguments; numba fails at one that has moved since.
	find table indexes datasets -name '*.nb[ic]' -delete
	$(BIN)/python -m keymark.table.runtime.precompile
	$(BIN)/python run_bench.py data digest trips --set rows=1000 >/dev/null
	@touch $@

# A test's JVM starts in half the time with it, and without it starts all the same.
$(VENV)/spark.jsa: $(STAMP) tests/spark_classes.py
	-$(BIN)/python tests/spark_classes.py $@

lint: install ## style, types
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy

format: install ## rewrite the sources in the house style
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

# Its tables lie in memory where 6 GiB of it are free; those of `make test-all` are on the disk.
test: install $(VENV)/spark.jsa ## the tests to run before a commit, in ten minutes
	@if [ "$$(df -Pk /dev/shm 2>/dev/null | awk 'END { print int($$4) }')" -ge 6291456 ]; then \
		TMPDIR=$$(mktemp -d /dev/shm/keymark.XXXXXX); export TMPDIR; \
		trap 'rm -rf "$$TMPDIR"' EXIT INT TERM; \
	fi; \
	$(BIN)/python -m pytest -n 2 --dist loadgroup --max-worker-restart 0 --durations 30 --long without

# Without a registry, tests that ask HBase, a browser, Delta or Iceberg are skipped, each by name.
# An HBase that ran before goes on running.
test-all: install $(VENV)/spark.jsa $(VENV4)/.installed ## the long tests, which `make test` leaves out, with HBase, Chromium, Delta and Iceberg; tests that meet Spark on PySpark 4
	@command -v chromium >/dev/null || apt-get install --yes chromium >/dev/null 2>&1 || true
	@timeout 120 $(BIN)/python run_bench.py engine install delta@3.3.2 iceberg@1.10.0 >/dev/null 2>&1 || true
	@stop=true; \
	if ! $(BIN)/keymark hbase status >/dev/null 2>&1; then \
		timeout 300 $(BIN)/keymark hbase start </dev/null >/dev/null 2>&1 || true; \
		stop="$(BIN)/keymark hbase stop"; \
	fi; \
	code=0; \
	$(VENV4)/bin/python -m pytest -n 2 --dist loadgroup --max-worker-restart 0 -m "spark and not slow" --long without || code=$$?; \
	$(BIN)/python -m pytest -n 2 --dist loadgroup --max-worker-restart 0 --durations 60 --long only || code=$$?; \
	$$stop >/dev/null 2>&1; \
	exit $$code

test-engines: jars $(VENV)/spark.jsa ## the long tests of further releases of Hudi, formats and libraries, which `make test-all` leaves out
	$(BIN)/python run_bench.py engine install delta@3.3.2 iceberg@1.10.0
	$(BIN)/python -m pytest -n 2 --dist loadgroup --max-worker-restart 0 --durations 60 --long engines

test-spark4: $(VENV4)/.installed ## the tests that start Spark, on the newest PySpark 4, in .venv4
	$(VENV4)/bin/python -m pytest -n 2 --dist loadgroup --max-worker-restart 0 -m spark

$(VENV4)/.installed: requirements-spark4.lock pyproject.toml
	$(PYTHON) -m venv $(VENV4)
	$(VENV4)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-spark4.lock
	$(VENV4)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

test-cluster: install ## longer histories and all kills on a Spark cluster of two workers
	$(BIN)/python -m pytest tests/cluster --cluster full

test-long: install ## thousands of random histories of a table; goes on where it stopped
	$(BIN)/python tests/table/histories/run_long.py --histories 3000

test-faults: install ## all fault campaigns, hours of them; goes on where it stopped
	$(BIN)/python tests/campaigns/run_campaigns.py

jars: install ## the releases of Apache Hudi that the tests ask, its S3 client, and the engines without Spark
	$(BIN)/python run_bench.py engine install hudi@0.15.0 hudi@1.1.1 hudi@1.2.0 s3a
	$(BIN)/python run_bench.py engine install deltalake@1.6.6 pyiceberg@0.12.0
	# Last, since fewest tests ask it: CI gives all of this four minutes.
	$(BIN)/python run_bench.py engine install hudi@1.0.2

interop: jars $(VENV)/spark.jsa ## every cell of Keymark with real Apache Hudi, both ways
	$(BIN)/python -m pytest tests/interop --interop-full

hbase: install ## start an HBase on this machine, for the index hbase (its jars once: 145 MB)
	$(BIN)/python run_bench.py hbase start

hbase-stop: install ## stop it; its tables stay
	$(BIN)/python run_bench.py hbase stop

bench: install ## the quickstart comparison, ending in a report
	$(BIN)/python run_bench.py run quickstart $(BENCH)

site: install ## the site of all published runs, in public
	$(BIN)/python run_bench.py site --out public

lock: install ## write requirements.lock and that of PySpark 4 anew from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --python-version 3.11 --generate-hashes --all-extras --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links pyproject.toml -o requirements.lock
	cp requirements.lock requirements-spark4.lock
	echo 'pyspark>=4.1' >$(VENV)/spark4.txt
	$(BIN)/uv pip compile --quiet --python-version 3.11 --generate-hashes --all-extras --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --override $(VENV)/spark4.txt --upgrade-package pyspark \
		--upgrade-package py4j pyproject.toml -o requirements-spark4.lock

ENGINE_LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links - -o harness/engines/libraries

lock-engines: install ## write the pins of the engines without Spark anew
	$(BIN)/python -m pip install --quiet uv
	echo 'deltalake[pyarrow]==1.6.6' | $(ENGINE_LOCK)/deltalake-1.6.6.lock
	echo 'pyiceberg[pyarrow,sql-sqlite]==0.12.0' | $(ENGINE_LOCK)/pyiceberg-0.12.0.lock

BASE ?= HEAD~1

gate: install ## the kernels of BASE (default HEAD~1) and of the work tree, in turns, judged
	$(BIN)/python run_bench.py gate $(BASE) --kernels --policy tests/benchmarks/kernels.toml $(GATE)

clean: ## remove what the verbs made
	rm -rf $(VENV) $(VENV4) runs public .pytest_cache .mypy_cache .ruff_cache *.egg-info
