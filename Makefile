# make demo   trains a classifier on real digits through compiled gradients
# make test   runs the tests
# make numpy  runs the tests of NumPy's functions with each minor version from 2.0 on, as does
# make scipy  runs the tests of SciPy's functions with each minor version from 1.13 on (VERSIONS="1.13 1.14")
# make lint   ruff, mypy and import-linter
# make bench  runs the benchmarks (installs JAX, PyTorch and Dr.Jit; ARGS="--only gmm --json figures.json")
#
# Each sets up .venv first, and again only when pyproject.toml says something new: the second run needs no network.

PYTHON ?= python3
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python

.PHONY: demo test numpy scipy lint bench clean
.DELETE_ON_ERROR:

demo: $(VENV)/.installed-demo
	$(PY) examples/digits.py $(ARGS)

test: $(VENV)/.installed-test
	$(PY) -m pytest -n auto --maxprocesses 4 --dist worksteal $(ARGS)

numpy: VERSIONS ?= 2.0 2.1 2.2 2.3
numpy: TESTS = tests/ops/test_answers.py
scipy: VERSIONS ?= 1.13 1.14 1.15 1.16 1.17
scipy: TESTS = tests/scipy
numpy scipy: $(VENV)/.installed-test
	for version in $(VERSIONS); do \
	    test -d $(VENV)/$@-$$version || $(PY) -m pip install --quiet --disable-pip-version-check \
	        --target $(VENV)/$@-$$version "$@==$$version.*" || { rm -rf $(VENV)/$@-$$version; exit 1; }; \
	    echo "$@ $$version"; PYTHONPATH=$(VENV)/$@-$$version $(PY) -m pytest $(TESTS) $(ARGS) || exit 1; \
	done

lint: $(VENV)/.installed-test
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

bench: $(VENV)/.installed-bench
	$(PY) -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# A stamp is the pyproject.toml that was installed.
$(VENV)/.installed-%: pyproject.toml | $(PY)
	cmp -s pyproject.toml $@ || $(PY) -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	cp pyproject.toml $@

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and \
	    "symgrad needs Python 3.10 or newer and this is " + sys.version.split()[0] + ": make PYTHON=/path/to/python")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "$(PYTHON) cannot make virtual environments (on Debian and Ubuntu: apt install python3-venv)"; exit 1; }
