# Two commands do everything: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints-cpu.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test docs pictures browser slow bench dist embedded-images clean

.venv/installed: pyproject.toml constraints-cpu.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]'
	$(BIN)/pip install --quiet --no-deps robustbench==1.1.1  # its pin of timm fits nobody else's
	touch $@

demo: .venv/installed
	$(BIN)/igd demo

test: .venv/installed browser
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(REQUIRED) $(BIN)/pytest --quiet --numprocesses 2

# The tests build it strictly, too; site/index.html opens from disk.
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pictures: .venv/installed
	$(BIN)/python -m documentation.pictures

# The page's tests open it in Chromium. Where it can be installed (as root, with apt) or in CI they
# fail without it; elsewhere they are skipped, and say so.
REQUIRED = $(shell [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo IGD_REQUIRE_BROWSER=1)
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing Chromium" && \
	    { apt-get install -y -qq chromium >/dev/null 2>&1 || \
	      { apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq chromium >/dev/null 2>&1; }; }; } || \
	  echo "There is no Chromium here: the tests of the page in a browser are skipped (in CI they fail)."

slow: .venv/installed
	$(BIN)/pytest --quiet -m slow

bench: .venv/installed
	$(BIN)/python -m benchmarks

# Wheel and sdist, checked, and the wheel tried in an empty environment.
dist: .venv/installed
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	rm -rf .venv-dist && $(PYTHON) -m venv .venv-dist
	.venv-dist/bin/pip install --quiet dist/*.whl
	cd .venv-dist && bin/igd doctor && bin/igd demo --n 8
	rm -rf .venv-dist

embedded-images: .venv/installed
	$(BIN)/igd data cifar10
	$(BIN)/python -c 'from igdefense.data import embedded; embedded.write()'

clean:
	rm -rf .venv .venv-dist dist
