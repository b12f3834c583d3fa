# Two commands do everything: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints-cpu.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test slow bench embedded-images clean

.venv/installed: pyproject.toml constraints-cpu.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

demo: .venv/installed
	$(BIN)/igd demo

test: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest --quiet --numprocesses 2

slow: .venv/installed
	$(BIN)/pytest --quiet -m slow

bench: .venv/installed
	$(BIN)/python -m benchmarks

embedded-images: .venv/installed
	$(BIN)/igd data cifar10
	$(BIN)/python -c 'from igdefense.data import embedded; embedded.write()'

clean:
	rm -rf .venv
