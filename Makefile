# What people do here. `make` alone prints this.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
# uv trusts the authorities that the system trusts, as pip and Go do: a company's own may be among them.
export UV_SYSTEM_CERTS ?= 1

.PHONY: help host host-venv venv binaries run test check unit controlplane e2e bench test-gpu cluster cluster-down docs proto lock

##@ See it
run: binaries ## Start a whole Kubernetes with simulated GPUs and play the story (ONCE=1: stop after it)
	@$(BIN)/python -m devcluster.demo $(if $(ONCE),--once)

cluster: binaries ## Start the development cluster with our parts in it (NAME=default)
	@$(BIN)/python -m devcluster up $(if $(NAME),--name $(NAME)) --parts

cluster-down: $(READY) ## Stop the development cluster and leave nothing behind (NAME=default)
	@$(BIN)/python -m devcluster down $(if $(NAME),--name $(NAME))

##@ Test it
test: check binaries ## Everything there is: checks, unit, control plane, end to end
	@$(PYTEST) -q

check: $(READY) ## Format, lint, types, import contracts, dependencies, spelling
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/deptry .
	@$(BIN)/codespell

unit: $(READY) ## Tests that need no cluster
	@$(PYTEST) -q -m "not controlplane and not e2e and not gpu"

controlplane: binaries ## Tests against a real API server
	@$(PYTEST) -q -m controlplane

e2e: binaries ## Tests on a whole cluster with real kubelets
	@$(PYTEST) -q -m e2e

bench: binaries ## Measure, beside a floor in the same run, and describe the machine
	@$(BIN)/python -m tests.bench

test-gpu: $(READY) ## Tests that need a real NVIDIA GPU and its driver
	@$(PYTEST) -q -m gpu

##@ Keep it
docs: $(READY) ## Write the tables of docs/operations.md anew from the code
	@$(BIN)/python -m docs.generate

proto: $(READY) ## Generate the gRPC code from proto/
	@$(BIN)/python proto/generate.py

lock: $(READY) ## Resolve the locks in requirements/ anew, with hashes and without any address
	@for extra in deviceplugin extender; do \
	  $(BIN)/uv pip compile -q --universal --generate-hashes --no-header --python-version 3.11 \
	    pyproject.toml --extra $$extra -o requirements/$$extra.txt; done
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --python-version 3.11 \
	  pyproject.toml --all-extras --group dev -o requirements/dev.txt
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --python-version 3.11 \
	  requirements/uv.in -o requirements/uv.txt

##@ Prepare it (the goals above do this by themselves)
host: ## Install by apt what the machine lacks, or name it
	@$(PYTHON) -m devcluster.hostpackages cluster

host-venv:
	@$(PYTHON) -m devcluster.hostpackages venv

venv: $(READY) ## The virtual environment, from the hash-pinned lock

binaries: host $(READY) ## Kubernetes, etcd, containerd, runc and CNI from pinned Go modules, once per machine
	@$(BIN)/python -m devcluster.binaries

$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml | host-venv
	@echo "Making the virtual environment in $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements/uv.txt
	@$(BIN)/uv pip sync --quiet --require-hashes --python $(BIN)/python requirements/dev.txt
	@$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --python $(BIN)/python --editable .
	@touch $@

help: ## This list
	@awk 'BEGIN {FS = ":.*##"} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*##/ {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
