# `make demo` shows dradriver, `make test` tests it. Both create a virtual environment in .venv, or in VENV=FOLDER,
# with the Python of PYTHON=PROGRAM.

PYTHON ?= python3
VENV := .venv
# The SDK with all extras, and the drivers. Each is a distribution.
PROJECTS := drivers/fabric_cxl drivers/fpga drivers/gpu_mig examples/loop
EDITABLE := --editable '.[cluster,kubeconfig]' $(PROJECTS:%=--editable ./%)
BIN := $(VENV)/bin
# Tests start many processes. Without bytecode files, each of them would compile the code again.
unexport PYTHONDONTWRITEBYTECODE
# With PYTHON=PROGRAM, a virtual environment of another Python is out of date.
ifneq ($(origin PYTHON),file)
ANOTHER := $(shell PYTHON='$(PYTHON)' sh packaging/venv.sh --is-of-another '$(VENV)' && echo another-python)
endif

.PHONY: help demo test coverage check docs docs-serve pictures format proto interop e2e guest gpu faults release-check
.PHONY: release-tests test-debian-13 requirements bench soak clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(VENV)/.installed ## show devices from discovery to a container
	@$(BIN)/dradriver demo

# About half of the time of these tests is waiting, so there are three workers for two processors.
test: $(VENV)/.developer ## run all tests that need neither Go, root nor a container runtime
	$(BIN)/python -m pytest -n $$(expr \( $$(getconf _NPROCESSORS_ONLN) \* 3 + 1 \) / 2) --dist worksteal

coverage: $(VENV)/.developer ## run the same tests with coverage (its lower limit is in pyproject.toml)
	$(BIN)/python -m pytest -n logical --dist worksteal --cov --cov-report=term:skip-covered

check: $(VENV)/.developer ## check format, lint, types, import contracts, words and docstrings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.repository.words
	$(BIN)/python -m tests.repository.docstrings

docs: $(VENV)/.docs ## build the documentation site into build/site, and check its links
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
	$(BIN)/python -m website.built_site build/site

docs-serve: $(VENV)/.docs ## serve the documentation site on 127.0.0.1:8000 while you write
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

pictures: $(VENV)/.installed ## draw the pictures of the documentation
	$(BIN)/python -m website.pictures

format: $(VENV)/.developer ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

interop: $(VENV)/.developer ## test with programs of the Go ecosystem (skipped without Go)
	$(BIN)/python -m pytest -m interop --timeout 900

e2e: $(VENV)/.developer ## test on a real Kubernetes (the first run builds it for some minutes; skipped without Go)
	@$(BIN)/python -m tests.e2e.host
	$(BIN)/python -m pytest -m e2e --timeout 1800

guest: $(VENV)/.developer ## test FPGAs and CXL memory with Linux kernels in QEMU (the first run fetches Debian packages; skipped on other systems)
	@$(BIN)/python -m tests.drivers.fpga.guest.packages
	@$(BIN)/python -m tests.drivers.fabric_cxl.guest.packages
	$(BIN)/python -m pytest -m guest tests/drivers

gpu: $(VENV)/.developer ## test on the GPUs of this machine, whose settings stay as they are (skipped without a GPU)
	$(BIN)/python -m pytest -m gpu tests/gpu

faults: $(VENV)/.developer ## kill drivers KILLS=200 times at random moments, and the control plane a third as often (SEED=n)
	KILLS=$${KILLS:-200} $(BIN)/python -m pytest -s tests/faults tests/drivers/gpu_mig/instances/test_reconcile_survives_kill_at_any_moment.py \
		tests/drivers/gpu_mig/mps/test_daemons_survive_kill_at_any_moment.py \
		tests/drivers/fabric_cxl/memory/simulator/test_memory_survives_kill_at_any_moment.py \
		tests/drivers/fabric_cxl/node/test_memory_survives_kill_at_any_moment.py \
		tests/drivers/fabric_cxl/emulator/test_state_of_the_emulator_survives_a_kill.py \
		tests/unit/classic/test_kills_at_any_write.py tests/unit/conditions/releases/test_kills_at_any_write.py \
		tests/unit/control/scheduler/binding/test_plan_writes_after_a_kill_at_any_step.py \
		tests/properties/extender tests/properties/classic

release-check: release-tests test-debian-13 ## check what a release publishes, and run the tests on Debian 13

# MARKS=release leaves out what `make e2e` runs too.
release-tests: $(VENV)/.developer ## check what a release publishes
	$(BIN)/python -m pytest -m "$${MARKS:-release or e2e}" tests/release tests/e2e/chart/test_upgrade_from_the_last_release.py \
		tests/e2e/chart/test_api_server_accepts_the_chart.py tests/packaging --timeout 900

# The classifiers name a Python that only the Debian root has. Where it cannot be made, the newest Python of the machine
# runs the tests, without podman as in the root.
test-debian-13: ## run the tests on Debian 13
	@if sh release/debian-13.sh true; then \
		sh release/debian-13.sh $(MAKE) --no-print-directory test PYTHON=python3 VENV=.cache/venv-debian-13; \
	else \
		echo "The newest Python of this machine runs the tests, not Debian 13."; \
		.ci/without podman $(MAKE) test PYTHON="$$(.ci/pythons | tail -n 1)" VENV=.cache/venv-newest; \
	fi

requirements: $(VENV)/.developer ## write requirements/*.txt, with the versions of constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group release
	$(BIN)/python -m release.requirements

bench: $(VENV)/.developer ## run the benchmarks; see benchmarks/README.md
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.allocator
	$(BIN)/python -m benchmarks.scheduling
	$(BIN)/python -m benchmarks.waiting
	$(BIN)/python -m benchmarks.embedded
	$(BIN)/python -m benchmarks.extender.throughput
	$(BIN)/python -m benchmarks.extender.waiting
	$(BIN)/python -m benchmarks.classic --kube-scheduler
	$(BIN)/python -m benchmarks.uevents
	$(BIN)/python -m benchmarks.bitstreams
	$(BIN)/python -m benchmarks.overview
	$(BIN)/python -m benchmarks.dashboard

soak: $(VENV)/.developer ## measure the memory growth of `dradriver up` over PODS=5000 pods (15 minutes)
	$(BIN)/python -m benchmarks.soak --pods $${PODS:-5000}

proto: $(VENV)/.developer ## generate dradriver/wire from proto/
	cd proto && find kubelet -name '*.proto' | sort | sed 's|^|dradriver/wire/|' | xargs \
		../$(BIN)/python -m grpc_tools.protoc -Idradriver/wire=. --python_out=.. --pyi_out=.. --grpc_python_out=..

clean: ## remove the files of the other targets
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

.PHONY: another-python
another-python:
	@rm -rf $(VENV)

$(VENV)/.installed: pyproject.toml $(PROJECTS:%=%/pyproject.toml) constraints.txt $(ANOTHER)
	@PYTHON='$(PYTHON)' sh packaging/venv.sh $(VENV)
	@echo "installing dradriver and its drivers into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt $(EDITABLE)
	@touch $@

$(VENV)/.developer: $(VENV)/.installed
	@echo "installing the test tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group dev
	@touch $@

$(VENV)/.docs: $(VENV)/.installed
	@echo "installing the tools of the documentation site into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group docs
	@touch $@
