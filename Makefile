# `make demo` shows sandrl at work, `make test` tests it; both set up .venv first, and only when the lock has changed.
PYTHON ?= python3
VENV   ?= .venv
# Each trainer has an environment of its own: their pins contradict one another.
VENV_GRPO ?= .venv-grpo
VENV_UNSLOTH ?= .venv-unsloth
VENV_ART ?= .venv-art
VENV_INTEGRATIONS ?= .venv-integrations
# They need Python 3.12.
VENV_FRAMEWORKS ?= .venv-frameworks
PYTHON_FRAMEWORKS ?= python3.12
# So has the documentation's site.
VENV_DOCS ?= .venv-docs
VENV_RELEASE ?= .venv-release
BIN    := $(VENV)/bin
SETUP   = $(PYTHON) tools/setup_venv.py
# Extra words for the program at hand: make test ARGS='-k judge'.
ARGS   ?=
# How many processes run the tests of `make test`, each those of whole files; 0: pytest itself (make test JOBS=0 ARGS=--pdb).
# More than there are processors: most tests wait.
JOBS   ?= 4

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit check static format lint types imports generated words docs docs-exceptions docs-serve venv-docs generate venv venv-base venv-grpo test-grpo venv-unsloth test-unsloth venv-art test-art venv-integrations test-integrations venv-frameworks test-frameworks lock pictures bench wheel release venv-release clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

venv-base:
	@$(SETUP) --lock base $(VENV)

venv: ## Set up .venv for development
	@$(SETUP) --lock trackers $(VENV)

demo: venv-base ## Score five completions in five isolated sandboxes
	@$(BIN)/sandrl reward $(ARGS)

# Files in the order of their names: those of tests/unit are the last, so short that all processes end at the same time.
test: venv ## Run the tests
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-unit: venv ## Run the unit tests, for example with another Python: make test-unit PYTHON=python3.13 VENV=.venv-3.13
	@$(BIN)/python -m pytest tests/unit --numprocesses 2 --dist loadfile $(ARGS)

venv-grpo: ## Set up .venv-grpo: development, what `sandrl grpo` trains with, for the processor alone, and Tinker's SDK
	@$(SETUP) --lock grpo $(VENV_GRPO)

# The Tinker service also with the current SDK, which ART does not permit.
test-grpo: venv-grpo ## Run the tests that train, and those of the Tinker service with the current SDK
	@OMP_NUM_THREADS=1 $(VENV_GRPO)/bin/python -m pytest tests/trainers tests/art $(ARGS)

venv-unsloth: ## Set up .venv-unsloth: development, and what `sandrl unsloth` trains with, for the processor alone
	@$(SETUP) --lock unsloth $(VENV_UNSLOTH)

test-unsloth: venv-unsloth ## Train the tiny policy for a few steps with Unsloth
	@OMP_NUM_THREADS=1 $(VENV_UNSLOTH)/bin/python -m pytest tests/unsloth $(ARGS)

venv-art: ## Set up .venv-art: development, and what `sandrl art train --backend tinker` trains with
	@$(SETUP) --lock art-tinker $(VENV_ART)

test-art: venv-art ## Train the tiny policy with ART, against a Tinker server on this machine
	@OMP_NUM_THREADS=1 $(VENV_ART)/bin/python -m pytest tests/art $(ARGS)

venv-integrations: ## Set up .venv-integrations: development, and the frameworks that sandrl.integrations adapts to
	@$(SETUP) --lock integrations $(VENV_INTEGRATIONS)

test-integrations: venv-integrations ## Run the tests of the integrations, with these frameworks
	@$(VENV_INTEGRATIONS)/bin/python -m pytest tests/integrations $(ARGS)

venv-frameworks: ## Set up .venv-frameworks: development, and the frameworks whose sandboxes are ours, on Python 3.12
	@$(PYTHON_FRAMEWORKS) tools/setup_venv.py --lock frameworks $(VENV_FRAMEWORKS)

test-frameworks: venv-frameworks ## Run the tests of our sandboxes inside these frameworks
	@$(VENV_FRAMEWORKS)/bin/python -m pytest tests/frameworks tests/integrations/test_openenv.py tests/integrations/test_page.py $(ARGS)

check: static test ## Run everything that CI runs

static: format lint types imports generated words docs

format: venv
	@$(BIN)/ruff format --check --quiet . || { echo 'format: run $(BIN)/ruff format .' >&2; exit 1; }

lint: venv
	@$(BIN)/ruff check .

types: venv
	@$(BIN)/mypy

imports: venv
	@$(BIN)/lint-imports --no-cache

generated: venv
	@$(BIN)/python tools/generate.py --check

words: venv ## Find words in texts for users that plain technical English does without
	@$(BIN)/python tools/words.py $(ARGS)

venv-docs:
	@$(SETUP) --lock docs $(VENV_DOCS)

# The notice is about a later MkDocs; the lock has the one that this theme is made for.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(VENV_DOCS)/bin/python -m mkdocs

docs: venv-docs ## Build the documentation's site into site/, strictly
	@$(MKDOCS) build

docs-exceptions: venv ## List the commands of the documentation that no test runs, with the reasons
	@$(BIN)/python -m tests.docs.exceptions

docs-serve: venv-docs ## Show the documentation's site while its pages are edited
	@$(MKDOCS) serve $(ARGS)

wheel: venv-base ## Build a wheel of this clone into dist/, to install elsewhere
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/sandrl-*.whl

venv-release:
	@$(SETUP) --lock release $(VENV_RELEASE)

release: venv-release ## Build the last commit's packages into dist/, check them, and say what to upload
	@$(VENV_RELEASE)/bin/python tools/release.py $(ARGS)

generate: venv ## Write what is made from the code: docs/reference/cli.md, completions/
	@$(BIN)/python tools/generate.py

pictures: venv ## Make the README's pictures from real runs (ARGS='--run RUN' for one of training)
	@$(BIN)/python tools/pictures.py $(ARGS)

bench: venv ## Measure reward throughput, what the judge costs, and cells against fresh sandboxes
	@$(BIN)/python -m benchmarks.reward_throughput $(ARGS)
	@$(BIN)/python -m benchmarks.judge
	@$(BIN)/python -m benchmarks.cells trivial work cases sleepers processes latency

# Universal resolution: one file for every Python and platform; no index addresses in it.
COMPILE = $(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
	--no-annotate --custom-compile-command 'make lock' pyproject.toml requirements/build.in

lock: venv ## Renew requirements/*.txt (make lock ARGS=--upgrade for newer versions)
	@$(COMPILE) $(ARGS) -o requirements/base.txt
	@$(COMPILE) $(ARGS) --extra dev -c requirements/base.txt -o requirements/dev.txt
	@cat requirements/dev.bare.txt >> requirements/dev.txt
	@sed '/^swebench/,$$d' requirements/dev.txt | $(COMPILE) $(ARGS) requirements/clients.in --extra dev --extra docker --extra kubernetes --extra mlflow --extra tensorboard --extra trackio -c - -o requirements/trackers.txt
	@cat requirements/dev.bare.txt >> requirements/trackers.txt
	@$(COMPILE) $(ARGS) --extra docs -c requirements/dev.txt -o requirements/docs.txt
	@$(COMPILE) $(ARGS) requirements/release.in -c requirements/base.txt -o requirements/release.txt
	@sed -n 's/^\(torch==.*\)+cpu$$/\1/p' requirements/grpo.torch.txt | $(COMPILE) $(ARGS) requirements/tinker.in --extra dev --extra grpo \
		--extra tinker -c requirements/dev.txt -c - --excludes requirements/grpo.excludes.txt --no-emit-package torch -o requirements/grpo.txt
	@cat requirements/tinker.bare.txt >> requirements/grpo.txt
	@sed -n 's/^\(torch==.*\)+cpu$$/\1/p' requirements/grpo.torch.txt | $(COMPILE) $(ARGS) --extra dev --extra unsloth -c requirements/dev.txt -c - \
		--excludes requirements/grpo.excludes.txt --excludes requirements/unsloth.excludes.txt \
		--overrides requirements/unsloth.overrides.txt --no-emit-package torch -o requirements/unsloth.txt
	@sed -E '/^(openai)==/d; /^ /d' requirements/dev.txt | sed 's/ *\\$$//' | $(COMPILE) $(ARGS) --extra dev --extra art-tinker -c - \
		--excludes requirements/grpo.excludes.txt --overrides requirements/art-tinker.overrides.txt --no-emit-package torch \
		-o requirements/art-tinker.txt
	@sed -E '/^(openai)==/d; /^ /d' requirements/dev.txt | sed 's/ *\\$$//' | $(COMPILE) $(ARGS) requirements/integrations.in --extra dev \
		-c - --excludes requirements/integrations.excludes.txt -o requirements/integrations.txt
	@cat requirements/integrations.bare.txt >> requirements/integrations.txt
	@$(subst 3.11,3.12,$(COMPILE)) $(ARGS) requirements/frameworks.in --extra dev -c requirements/dev.txt \
		--excludes requirements/integrations.excludes.txt --excludes requirements/frameworks.excludes.txt \
		--overrides requirements/frameworks.overrides.txt -o requirements/frameworks.txt

clean: ## Remove .venv and caches
	rm -rf $(VENV) .venv-3.* $(VENV_GRPO) $(VENV_UNSLOTH) $(VENV_ART) $(VENV_INTEGRATIONS) $(VENV_DOCS) $(VENV_RELEASE) site .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
