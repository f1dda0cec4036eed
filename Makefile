PYTHON ?= python3
INSTALL := -m pip install --quiet --disable-pip-version-check

# Folders with <name>.npz data sets, separated as in PATH; without them the bundled data set is all there is.
export PRECOG_DATA ?=

.PHONY: help demo test test-oldest lint check bench bench-peers clean
.DEFAULT_GOAL := help

help:  ## List the targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
		printf 'make %-12s %s\n' "$$name" "$$text"; done

demo: .venv/.ready  ## Fit the bundled data, compare with scikit-learn, save demo.png.
	.venv/bin/precog demo --plot demo.png

test: .venv/.ready  ## Run the tests.
	.venv/bin/pytest -n 2

test-oldest: .venv-oldest/.ready  ## Run the tests with the oldest allowed versions (Python 3.11 or 3.12).
	.venv-oldest/bin/pytest -n 2

lint: .venv/.ready  ## Check format, lint and types.
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

check: lint test  ## Check everything: format, lint, types, tests.

bench: .venv/.ready  ## Time the fused products, the solvers and the preconditioners.
	.venv/bin/python benchmarks/gram.py
	.venv/bin/python benchmarks/solvers.py

bench-peers: .venv-peers/.ready  ## Time them next to PyTorch, KeOps and GPyTorch (KeOps needs a C++ compiler).
	.venv-peers/bin/python benchmarks/gram.py --peers
	.venv-peers/bin/python benchmarks/gp.py --peers

clean:  ## Remove the environments and everything else that was made here.
	rm -rf .venv .venv-oldest .venv-peers build dist demo.png .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	.venv/bin/python $(INSTALL) -e ".[all,dev]"
	@touch $@

.venv-oldest/.ready: pyproject.toml requirements/oldest.txt
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python $(INSTALL) -c requirements/oldest.txt -e ".[all,test]"
	@touch $@

# torch goes first, so that no other package chooses its version.
.venv-peers/.ready: pyproject.toml requirements/peers.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python $(INSTALL) -c requirements/peers.txt torch
	.venv-peers/bin/python $(INSTALL) -c requirements/peers.txt -e . pykeops gpytorch
	@touch $@
