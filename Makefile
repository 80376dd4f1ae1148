# Everything from nothing: `make demo` and `make test` need only Python 3.11, pip and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Where nothing can be installed, the GPU tests run with whatever python3 has torch and pytest.
GPU_PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
GPU_TESTS = $(shell grep -lE 'pytest\.mark\.cuda' tests/test_*.py)

.PHONY: help demo test quick slow golden coverage test-gpu faults format clean

help:
	@echo "make demo      install the core into $(VENV) and run the tour on embedded data"
	@echo "make test      install the test extra too; check format, lint and types; run all tests"
	@echo "make quick     what a minute and a half can test: nothing slow, no browser, no training"
	@echo "make golden    write what tests provoke into tests/golden anew, to be reviewed with git diff"
	@echo "make coverage  all tests, and which lines they reach"
	@echo "make test-gpu  run the tests that need CUDA and record results/gpu-tests.json"
	@echo "make faults    kill a training run at random moments, 20 times over, and compare bits"
	@echo "make slow      run all tests and write tests/slow.txt anew: what make quick leaves out"
	@echo "make format    format the code and mend what the linter can"
	@echo "make clean     remove $(VENV) and everything that was generated"

demo: $(VENV)/.core
	@$(BIN)/python -m regard demo

# One thread for each worker, or their threads would fight over the same cores. A file stays with one
# worker as long as none is idle, so that what its tests share is made once. To read the tests and
# the package takes a good part of the time, so what Python makes of them is kept.
PYTEST = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= \
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

test: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST)

quick: $(VENV)/.test
	$(PYTEST) -m "not slow and not chromium and not trains" -x -q

# What is slow or trains: tests/durations.py says how it is measured.
slow: $(VENV)/.test
	$(PYTEST) --record-durations $(VENV)/durations.json
	$(BIN)/python tests/durations.py $(VENV)/durations.json

# The sentences that errors and commands say, by the tests that provoke them. See tests/golden.py.
golden: $(VENV)/.test
	$(PYTEST) -q --golden write $(shell grep -lE '^from golden import' tests/test_*.py)

# Tracing every line takes a third longer, so it is not part of every run.
coverage: $(VENV)/.test
	$(PYTEST) --cov=regard --cov-report=term:skip-covered

# Most of the time is compiling: where xdist is installed, GPU_OPTIONS=-n6 does that side by side.
test-gpu:
	@test -n "$(GPU_TESTS)" || { echo "no test is marked with cuda" >&2; exit 1; }
	REGARD_REQUIRE=cuda PYTHONPATH=src:$$PYTHONPATH $(GPU_PYTHON) -m pytest -m cuda $(GPU_OPTIONS) \
		--record-gpu results/gpu-tests.json $(GPU_TESTS)

# Other moments: make faults SEED=1. More of them: make faults ROUNDS=100.
faults: $(VENV)/.test
	$(BIN)/python tests/faults.py --rounds $(or $(ROUNDS),20) --seed $(or $(SEED),0)

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +

# The stamps .core and .test say what is installed. They are written last, so that an interrupted
# installation is done again; .installing tells that pip was killed, and then only a new
# environment is sure to be whole.

$(VENV)/.core: pyproject.toml constraints.txt
	$(environment)
	$(call install,.)
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt
	$(environment)
	$(call install,.[test])
	@touch $(VENV)/.core $@

define environment
@if [ -e $(VENV)/.installing ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "regard needs Python 3.11 or newer, and $(PYTHON) is" \
			"$$($(PYTHON) --version 2>&1 | tail -n 1): name another, as in make PYTHON=python3.12" >&2; \
		exit 1; }; \
	echo "making $(VENV) …"; \
	rm -rf $(VENV) && $(PYTHON) -m venv $(VENV) || { \
		echo "$(PYTHON) -m venv failed: on Debian, install python3-venv" >&2; exit 1; }; \
fi
endef

# pip fetches everything before it installs anything, so a failed download leaves nothing half done.
define install
@touch $(VENV)/.installing
@for try in 1 2 3; do \
	echo "installing regard ($(1)) into $(VENV) … (a few minutes the first time)"; \
	$(BIN)/python -m pip install -qq --disable-pip-version-check --retries 5 \
		-c constraints.txt -e '$(1)' && break; \
	if [ $$try = 3 ]; then \
		rm -f $(VENV)/.installing; \
		echo "the installation failed three times: see above for what pip missed" >&2; exit 1; \
	fi; \
	echo "that failed; trying again in $$((try * 5)) seconds" >&2; sleep $$((try * 5)); \
done
@rm -f $(VENV)/.installing
endef
