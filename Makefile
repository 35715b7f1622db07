# Two promises: `make demo` and `make test`, on a fresh machine and again. What is missing for what is asked is
# installed first (tools/setup.sh); .venv/bin/nezha is the command.
VENV := .venv
STAMPS := build/stamps
PYTHON := python3
# What the machine must have, to build the product, for the demo, and for the tests.
SETUP := $(firstword $(shell cksum pyproject.toml tools/setup.sh | cksum))
PRODUCT := $(STAMPS)/product-$(SETUP)
DEMO := $(STAMPS)/demo-$(SETUP)
DOCS := $(STAMPS)/docs-$(SETUP)
TESTS := $(STAMPS)/tests-$(SETUP)
INSTALLED := $(STAMPS)/installed
TORCH := $(STAMPS)/torch
SOURCES := $(shell find src modules include python -type f ! -name '*.pyc' ! -name '*.so' 2>/dev/null) \
           CMakeLists.txt pyproject.toml

.DEFAULT_GOAL := help
.NOTPARALLEL:  # one at a time, from left to right: all install into the same environment
.PHONY: help install docs wheel demo test test-long test-rdma faults soak upstream bench-peers lab-clean clean

help:  ## What can be made
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' $(MAKEFILE_LIST) | column -t -s '|'

install: $(INSTALLED)  ## The command, as .venv/bin/nezha

docs: $(DOCS)  ## The site: build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build

wheel: $(PRODUCT)  ## A wheel that needs no compiler where it is installed: dist/
	@tools/wheel.sh

demo: $(DEMO) $(INSTALLED)  ## Two rails at work in a lab on this machine: table, picture, a training
	@$(VENV)/bin/nezha demo

# As the tests' own build: with the compiler's name and flags the same, ccache compiles the library once.
WARNINGS_ARE_ERRORS := OFF
test test-long: WARNINGS_ARE_ERRORS := ON

test: $(TESTS) $(INSTALLED)  ## House rules, Python, the lab, torch, C++ optimised and under sanitizers
	@TORCH=$(TORCH) tools/run_tests.sh

test-long: $(TESTS) $(INSTALLED)  ## The same with every C++ suite in every build, and the tests that take a minute
	@TORCH=$(TORCH) tools/run_tests.sh --long

test-rdma: $(TESTS)  ## Soft-RoCE in a virtual machine: verbs, libfabric and Nezha, with loss and a cut
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" PYTHONPATH=tests $(VENV)/bin/python -m rdma test

faults: $(TESTS) $(INSTALLED) $(TORCH)  ## Fault campaigns with their figures, at most 90 minutes: table, out/faults
	@PYTHONPATH=tests $(VENV)/bin/python -m campaigns --form faults

soak: $(TESTS) $(INSTALLED) $(TORCH)  ## The same for hours; goes on where it was interrupted
	@PYTHONPATH=tests $(VENV)/bin/python -m campaigns --form soak

upstream: $(TESTS) $(INSTALLED) $(TORCH)  ## torch's and torchft's own tests on gloo and on nezha, compared
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/python tests/upstream/run.py

bench-peers: $(INSTALLED)  ## Gloo, Open MPI and MPICH beside Nezha in one lab
	@bench/install_peers.sh
	@$(VENV)/bin/nezha bench all_reduce --nodes 4 --rates 1gbit,1gbit --compare gloo,openmpi,mpich

lab-clean: $(INSTALLED)  ## Remove every lab of this user
	@$(VENV)/bin/nezha lab down --all

clean:  ## Remove what was built
	rm -rf build $(VENV) out

$(STAMPS)/%-$(SETUP):
	@PYTHON=$(PYTHON) VENV=$(VENV) tools/setup.sh $*
	@mkdir -p $(STAMPS) && rm -f $(STAMPS)/$*-* && touch $@

$(DEMO) $(DOCS) $(TESTS): $(PRODUCT)

# Large, and needed by the tests of the torch backend only: without it they are skipped.
$(TORCH): $(PRODUCT)
	@echo "installing torch into $(VENV) for its tests"
	@$(VENV)/bin/pip install -q --no-compile --disable-pip-version-check --root-user-action=ignore \
	  "torch>=2.14" expecttest parameterized torchft==0.2.0 >build/torch.log 2>&1 || \
	  echo "torch cannot be installed (build/torch.log): tests/torch_backend is skipped"
	@touch $@

$(INSTALLED): $(PRODUCT) $(SOURCES)
	@echo "building nezha into $(VENV)"
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" CXX="$${CXX:-c++}" \
	  SKBUILD_CMAKE_DEFINE="NEZHA_JUMBO=ON;NEZHA_WARNINGS_ARE_ERRORS=$(WARNINGS_ARE_ERRORS)" \
	  $(VENV)/bin/pip install -q --no-build-isolation --no-deps \
	  --disable-pip-version-check --root-user-action=ignore --force-reinstall .
	@touch $@
