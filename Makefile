# The commands of this checkout. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The demo has a virtual environment of its own: it needs a third of the packages, and nothing of apt.
DEMO := .venv-demo
PYTEST := $(BIN)/python -m pytest
# In how many processes unit tests run; a module stays in one of them.
WORKERS ?= 2
# What tests draw at random, they draw again each time; only .ci/run, which judges a change, gives fixed seeds here.
DRAWS ?=
# tests/long runs on whole clusters for as long as it takes: make test-long.
JUDGED := $(PYTEST) -q $(DRAWS) --durations=10 --durations-min=1 --ignore=tests/long --ignore=tests/gpu
PARALLEL := -n $(WORKERS) --dist loadscope --no-loadscope-reorder
LOCK := $(BIN)/uv pip compile -q --universal --generate-hashes --no-header --python-version 3.11
# `make run` and `make cluster` take an older Kubernetes: KUBERNETES=1.30 builds it first, EMULATES=1.35 builds nothing.
OF_VERSION := $(if $(KUBERNETES),--kubernetes $(KUBERNETES)) $(if $(EMULATES),--emulates $(EMULATES))
# Commands that start clusters end with make, even if make alone is killed and cannot stop them any more.
WITH_MAKE := setpriv --pdeathsig TERM --
# Byte code is written, because hundreds of processes of one run import the same modules.
unexport PYTHONDONTWRITEBYTECODE
# uv trusts the system's certificate authorities, as pip and Go do: a company's own may be among them.
export UV_SYSTEM_CERTS ?= 1

.PHONY: help demo host host-images host-tests host-venv venv binaries run test test-long check unit component controlplane e2e prove flakes soak chaos bench fairness profile test-gpu gpu-bundle image cluster cluster-down kind kind-down docs site pictures proto lock

##@ See it
demo: $(DEMO)/.ready ## Show the whole product in a browser, without a cluster (PORT=8765; ARGS="--nodes 300")
	@$(DEMO)/bin/python -m demo $(if $(PORT),--port $(PORT)) $(ARGS)

run: binaries ## Install the product on a Kubernetes with simulated GPUs and play the story (ONCE=1: stop after it)
	@$(WITH_MAKE) $(BIN)/python -m devcluster.demo $(if $(ONCE),--once) $(if $(PROCESSES),--processes) $(OF_VERSION)

cluster: binaries ## Start the development cluster with our parts as processes of the host (NAME=default)
	@$(BIN)/python -m devcluster up $(if $(NAME),--name $(NAME)) --parts $(OF_VERSION)

cluster-down: $(READY) ## Stop the development cluster and leave nothing behind (NAME=default; ALL=1: all clusters of this machine)
	@$(BIN)/python -m devcluster down $(if $(ALL),--all,$(if $(NAME),--name $(NAME)))

kind: ## Start a kind cluster with simulated GPUs and our parts in it, for a laptop with Docker
	@kind/up.sh

kind-down: ## Delete the kind cluster
	@kind delete cluster --name gpu-booking

##@ Test it
test: host-tests binaries ## The gate: check, unit, component, controlplane, e2e; the first failure ends it
	@$(WITH_MAKE) $(BIN)/python -m tests.running.gate

test-long: host-tests binaries ## Everything longer, random or destructive, a cluster per file (ONLY=a file or an expression)
	@$(WITH_MAKE) $(BIN)/python -m tests.running.long $(if $(ONLY),--only "$(ONLY)")

check: $(READY) ## Format, lint, types, import contracts, dependencies, spelling
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --config contracts.toml
	@$(BIN)/lint-imports --config contracts-booking.toml
	@$(BIN)/lint-imports --config libraries.toml
	@$(BIN)/deptry .
	@$(BIN)/codespell

unit: $(READY) ## Tests that need nothing but this checkout
	@$(JUDGED) $(PARALLEL) -m "not component and not controlplane and not e2e"

component: host-tests binaries ## Tests with a database server, a browser or another program
	@$(JUDGED) $(PARALLEL) -m component

controlplane: host-tests binaries ## Tests against a real API server
	@$(WITH_MAKE) $(JUDGED) -m controlplane tests/controlplane

e2e: host-tests binaries ## The story and a test per law, on whole clusters with real kubelets
	@$(WITH_MAKE) $(BIN)/python -m tests.running.e2e $(DRAWS)

prove: host-tests binaries ## Run a test again and again, also beside busy processes (TEST=file::test N=10; GATE=1 N=5: make test)
	@$(WITH_MAKE) $(BIN)/python -m tests.running.prove $(if $(GATE),--gate) $(if $(TEST),--test "$(TEST)") $(if $(N),--times $(N))

flakes: $(READY) ## List tests that failed and passed when repeated: defects to fix before the next feature
	@$(BIN)/python -m tests.running.flakes

soak: host-tests binaries ## Run what no other run has time for: histories of 10,000 steps, all variants, harm after harm (SOAK_MINUTES=30)
	@$(PYTEST) -q $(PARALLEL) --timeout 3000 --hypothesis-profile=soak tests/properties tests/scenarios tests/fairness tests/deviceplugin/nvml \
	  tests/booking/server/web/rest/test_openapi.py
	@$(WITH_MAKE) $(PYTEST) -q -s tests/long/fire/soak_every_call.py tests/long/fire/soak.py tests/long/churn/soak.py \
	  tests/booking/server/store/soak_crowd.py tests/booking/server/web/soak_memory.py

chaos: host-tests binaries ## Run the chart's product under load while everything in and below it is killed (CHAOS_SECONDS=900, CHAOS_SEED)
	@CHAOS_SECONDS=$${CHAOS_SECONDS:-900} $(WITH_MAKE) $(PYTEST) -q -s tests/long/chaos

bench: host-tests binaries ## Run the benchmarks, each with a floor in the same run, and describe the machine
	@$(WITH_MAKE) $(BIN)/python -m tests.bench

fairness: $(READY) ## Simulate fair shares beside other rules and write docs/fair-shares.md (TRACES=a folder of traces; BIG=1)
	@$(BIN)/python -m tests.fairness $(if $(TRACES),--traces "$(TRACES)") $(if $(BIG),--big)

profile: $(READY) ## Draw where the extender's time goes at 1,000 nodes: a flame graph (OUT=profile.svg)
	@$(BIN)/python -m tests.bench.filter_profile $(OUT)

test-gpu: $(READY) ## Tests that need a real NVIDIA GPU and its driver (MPS=1: also those that set its compute mode)
	@MPS=$(MPS) $(PYTEST) -q -m gpu

gpu-bundle: binaries ## Pack what a GPU host without a network needs for test-gpu, in files of 60 MiB (GPU_PYTHON=3.12)
	@$(BIN)/python -m devcluster.bundle $(if $(GPU_PYTHON),--python $(GPU_PYTHON))

##@ Ship it
image: host-images $(READY) ## Build the three images with Docker or, if there is none, with buildah
	@$(BIN)/python -m devcluster.images

##@ Keep it
docs: $(READY) ## Regenerate the tables and pictures of the documents
	@$(BIN)/python -m docs.generate

site: $(VENV)/site/.ready ## Build the documents as a site with a tree by role and search (dist/site/html)
	@$(BIN)/python -m docs.site dist/site
	@cd dist/site && $(abspath $(VENV))/site/bin/zensical build --strict
	@echo "The site is in dist/site/html: open index.html."

$(VENV)/site/.ready: $(READY) requirements/site.txt
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)/site
	@$(BIN)/uv pip sync --quiet --require-hashes --python $(VENV)/site/bin/python requirements/site.txt
	@touch $@

pictures: host-tests $(READY) ## Take the pictures of the documents again, the moving one of the README among them
	@$(BIN)/python -m tests.browser

proto: $(READY) ## Generate the gRPC code from proto/
	@$(BIN)/python proto/generate.py

lock: $(READY) ## Resolve the lock files in requirements/ again, with hashes and without any address
	@$(LOCK) pyproject.toml --all-extras --group dev -o requirements/dev.txt
	@for extra in booking cli demo deviceplugin extender; do \
	  $(LOCK) pyproject.toml --extra $$extra --constraint requirements/dev.txt -o requirements/$$extra.txt; done
	@$(LOCK) --group site --constraint requirements/dev.txt -o requirements/site.txt
	@$(LOCK) requirements/uv.in -o requirements/uv.txt

##@ Prepare it (the commands above do this by themselves)
host: ## Install with apt what running needs and the machine lacks, or name it (UPGRADE=1: upgrade what is there for it)
	@$(PYTHON) -m devcluster.hostpackages cluster $(if $(UPGRADE),--upgrade)

host-images:
	@$(PYTHON) -m devcluster.hostpackages images $(if $(UPGRADE),--upgrade)

host-tests: ## The same with what only tests need
	@$(PYTHON) -m devcluster.hostpackages tests $(if $(UPGRADE),--upgrade)

host-venv:
	@$(PYTHON) -m devcluster.hostpackages venv $(if $(UPGRADE),--upgrade)

venv: $(READY) ## Make the virtual environment from the hash-pinned lock file

binaries: host $(READY) ## Build Kubernetes, etcd, containerd, runc, CNI and Helm from pinned Go modules, once per machine
	@$(BIN)/python -m devcluster.binaries

$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml | host-venv
	@echo "Making the virtual environment in $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements/uv.txt
	@$(BIN)/uv pip sync --quiet --compile-bytecode --require-hashes --python $(BIN)/python requirements/dev.txt
	@$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --python $(BIN)/python --editable .
	@touch $@

# pip's own cache is used where there is one; wheels alone, so that no compiler is needed. Of the official
# client's 1,800 modules the demo loads a few: Python compiles those when it first does.
$(DEMO)/.ready: requirements/demo.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if (3, 11) <= v < (3, 15) else "The demo needs \
	Python 3.11 to 3.14, and $(PYTHON) is %d.%d: name another one with PYTHON=python3.12." % v[:2])'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo >&2 "$(PYTHON) cannot make virtual environments:\
	 install its package, which is python3-venv on Debian and Ubuntu, or name another one with PYTHON."; exit 1; }
	@mkdir -p $(DEMO) 2>/dev/null && test -w $(DEMO) || { echo >&2 "The folder $(DEMO) cannot be written: name another\
	 one for the demo's virtual environment with DEMO."; exit 1; }
	@echo "Making the demo's virtual environment in $(DEMO), once"
	@$(PYTHON) -m venv --clear $(DEMO)
	@$(DEMO)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --only-binary :all: \
	  --no-compile -r requirements/demo.txt
	@touch $@

help: ## Print this list
	@awk 'BEGIN {FS = ":.*##"} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*##/ {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
