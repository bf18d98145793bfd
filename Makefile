# Two commands matter: `make demo` and `make test`. Both set everything up first.
PYTHON ?= python3.11
ifeq ($(shell command -v $(PYTHON) 2>/dev/null),)
PYTHON := python3
endif
# Every other Python and every other set of versions has an environment of its own.
TORCH ?= yes
SET ?= pinned
VENV := .venv$(if $(filter-out pinned,$(SET)),-$(SET))$(if $(filter-out python3 python3.11,$(PYTHON)),-$(notdir $(PYTHON)))$(if $(filter no,$(TORCH)),-without-torch)
CONSTRAINTS := constraints$(if $(filter-out pinned,$(SET)),-$(SET)).txt
EXTRAS := $(if $(filter no,$(TORCH)),test-without-torch,$(if $(filter lowest,$(SET)),test,dev))
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# One thread per test process: small matrices are slower on two.
# Bytecode is kept: tests start many Pythons, and each would compile every module again.
THREADS := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
JOBS ?= 2

.PHONY: help setup demo test test-all test-lowest test-newest test-lightning fuzz bench lint types docs pages pictures clean
help:
	@echo "make demo      set up and run the tour; ends in a summary and a picture"
	@echo "make test      set up and run the tests (a few minutes)"
	@echo "make test-all  the same plus the slow statistical checks"
	@echo "make test PYTHON=python3.12  the same with another Python; TORCH=no leaves out torch and what needs it"
	@echo "make test-lowest | test-newest  the same with the lowest allowed versions, with the newest available"
	@echo "make test-lightning  the callback in a real Lightning trainer, which it installs"
	@echo "make fuzz BUDGET=5m  random input of every kind; without a budget everything, and docs/reliability.json"
	@echo "make bench     measure speed as ratios; writes benchmarks/results"
	@echo "make docs      build both documentation sites in docs/_build/html"
	@echo "make pages     refresh the generated parts of README and docs"
	@echo "make lint | types | pictures | clean"

setup: $(STAMP)

PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)
$(STAMP): pyproject.toml papers/pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
ifeq ($(TORCH),no)
	$(PIP) -e '.[$(EXTRAS)]'
	$(PIP) --no-deps -e papers
else
	$(PIP) -e '.[$(EXTRAS)]' -e papers
endif
	@touch $(STAMP)

demo: setup
	@$(BIN)/isometer demo

test: setup
	$(THREADS) $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

test-all: setup
	$(THREADS) $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m ''

test-lowest test-newest:
	$(MAKE) test SET=$(@:test-%=%)

test-lightning: setup
	$(PIP) -e '.[lightning]'
	$(THREADS) $(BIN)/python -m pytest -q -m '' tests/doctor/watch

fuzz: setup
	$(THREADS) $(BIN)/python tools/fuzz.py --jobs $(JOBS) $(if $(BUDGET),--budget $(BUDGET),--out docs/reliability.json)

bench: setup
	$(THREADS) $(BIN)/python -m benchmarks

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

# The companion's site looks up names of the instrument in the instrument's site, so that is built first.
SPHINX := $(BIN)/sphinx-build -W --keep-going -q -b html
docs: setup
	$(BIN)/python tools/make_architecture.py --check
	$(BIN)/python tools/make_pages.py --check
	$(SPHINX) docs docs/_build/html
	$(SPHINX) papers/docs docs/_build/html/papers
	$(BIN)/python tools/check_site.py
	@echo "the site: docs/_build/html/index.html; the companion's: docs/_build/html/papers/index.html"

pages: setup
	$(BIN)/python tools/make_architecture.py
	$(BIN)/python tools/make_pages.py

pictures: setup
	$(BIN)/python tools/make_pictures.py
	$(BIN)/python tools/make_screenshots.py

clean:
	rm -rf .venv* build dist src/*.egg-info papers/src/*.egg-info docs/_build .pytest_cache .mypy_cache .ruff_cache
