# Each target first sets up what it needs in .venv, from requirements.lock; nothing changed, nothing done.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
# One install at a time, where flock exists. A pip that outlives its make keeps the lock.
LOCK := $(if $(shell command -v flock),flock Makefile)

ifneq ($(wildcard ../shared/data),)
export FOCUSING_DATA_DIR ?= $(CURDIR)/../shared/data
endif

.PHONY: help setup train test test-cluster fuzz lint bench docs notebooks results campaign venv-core venv-all

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile

setup: venv-all ## install the project, all its extras and the tools

train: venv-core ## run an experiment: make train ARGS="model=focus_s data=clt"
	$(RUN) train.py $(ARGS)

test: lint ## lint, then run the tests: make test ARGS="-k layer", make test DEVICE=cuda
	OMP_NUM_THREADS=1 $(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(if $(DEVICE),--device=$(DEVICE)) $(ARGS)

test-cluster: venv-all ## test sweeps on a real SLURM and a Ray of three nodes, both started on this machine
	@PATH="$$PATH:/usr/sbin"; command -v slurmctld && command -v munged || { \
		echo 'make test-cluster needs SLURM: apt-get install -y --no-install-recommends slurm-wlm munge'; \
		echo 'Only that needs root: the tests start daemons of their own, as this user.'; exit 1; }
	FOCUSING_TEST_CLUSTER=1 OMP_NUM_THREADS=1 $(RUN) -m pytest tests/integration/test_slurm.py tests/integration/test_ray.py $(ARGS)

fuzz: venv-all ## try thousands of bad options, files and run folders: make fuzz ARGS="-k options" EXAMPLES=5000
	OMP_NUM_THREADS=1 FOCUSING_FUZZ=$(or $(EXAMPLES),1000) $(RUN) -m pytest -n 2 tests/unit/test_fuzz.py $(ARGS)

lint: venv-all ## check style, types and layering
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports

bench: venv-all ## measure speed and memory: make bench ARGS=layer for one of benchmarks/
	for name in $(or $(ARGS),layer step launches loop table1 inference sweep report); do $(RUN) benchmarks/$$name.py || exit 1; done

docs: venv-all ## build the documentation in site/; then open site/index.html
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

notebooks: venv-all ## make the notebooks of notebooks/*.py anew
	$(VENV)/bin/jupytext --to ipynb notebooks/*.py

results: venv-core ## publish what is in outputs/: records to results/, tables and figures for REPRODUCTION.md
	[ -z "$$(find outputs -name result.json -print -quit)" ] || $(VENV)/bin/focusing archive outputs --out results
	[ -e results/report/.made.json ] || rm -rf results/report/* # a fresh clone cannot tell which files are stale
	$(VENV)/bin/focusing report results --out results/report
	$(RUN) results/quote.py

campaign: venv-core ## go on with the long runs of results/campaign.yaml: make campaign ARGS=hydra.launcher.gpus=8
	nice -n 19 $(RUN) results/campaign.py $(ARGS)

# A stamp is written last, so only a finished install has one. It holds the name of its folder, because
# a venv does not survive a move: in a copied folder its tools would still run the original's code.
$(shell grep -qsxF '$(CURDIR)' $(VENV)/.core || rm -f $(VENV)/.core $(VENV)/.all)

# The inner make looks at the stamps once it has the lock: another make may just have written them.
venv-core venv-all: venv-%:
	@$(LOCK) $(MAKE) --no-print-directory -s $(VENV)/.$*

$(VENV)/.core: EXTRAS := [cpu]
$(VENV)/.all: EXTRAS := [all,dev]
$(VENV)/.core $(VENV)/.all: pyproject.toml requirements.lock
	[ -e $(VENV)/.core ] || rm -rf $(VENV)
	[ -e $(VENV) ] || $(PYTHON) -m venv $(VENV)
	rm -f $(VENV)/.core $(VENV)/.all
	echo '$(CURDIR)' > $(VENV)/.begun # dates the stamp: what changes during the install is newer
	echo 'Installing focusing$(EXTRAS) into $(VENV): a few minutes, once'
	PIP_CONSTRAINT=requirements.lock PIP_BUILD_CONSTRAINT=requirements.lock \
		$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.$(EXTRAS)'
	$(RUN) -c 'from focusing.nn.ops.cpu import compile_kernels; compile_kernels()'
	mv $(VENV)/.begun $(VENV)/.core
	[ -e $@ ] || cp -p $(VENV)/.core $@
