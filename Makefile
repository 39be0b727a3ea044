# dradriver: `make demo` shows it, `make test` proves it. Both make their own virtual environment in .venv
# (VENV=FOLDER: elsewhere), of the Python that PYTHON=PROGRAM names.

PYTHON ?= python3
VENV := .venv
# The SDK with all of its extras, and the drivers: each is a distribution of its own.
PROJECTS := drivers/fpga drivers/gpu_mig examples/loop
EDITABLE := --editable '.[cluster,kubeconfig]' $(PROJECTS:%=--editable ./%)
BIN := $(VENV)/bin
# A Python that was asked for makes a virtual environment of another one out of date.
ifneq ($(origin PYTHON),file)
ANOTHER := $(shell PYTHON='$(PYTHON)' sh packaging/venv.sh --is-of-another '$(VENV)' && echo another-python)
endif

.PHONY: help demo test coverage check format proto interop e2e guest faults bench soak clean

help: ## this list
	@sed -n 's/^\([a-z0-9]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(VENV)/.installed ## real devices of this machine, all the way into a container
	@$(BIN)/dradriver demo

test: $(VENV)/.developer ## every test that needs neither Go, root nor a container runtime
	$(BIN)/python -m pytest -n logical --dist worksteal

coverage: $(VENV)/.developer ## the same tests, and the lines that they run (a lower limit in pyproject.toml)
	$(BIN)/python -m pytest -n logical --dist worksteal --cov --cov-report=term:skip-covered

check: $(VENV)/.developer ## format, lint, types, import contracts and words
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.repository.words

format: $(VENV)/.developer ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

interop: $(VENV)/.developer ## against programs of the Go ecosystem (skipped without Go)
	$(BIN)/python -m pytest -m interop --timeout 900

e2e: $(VENV)/.developer ## on a real Kubernetes (builds it once, for minutes; skipped without Go)
	@$(BIN)/python -m tests.e2e.host
	$(BIN)/python -m pytest -m e2e --timeout 1800

guest: $(VENV)/.developer ## FPGAs on the kernel's own core, in QEMU (fetches Debian's packages once; skipped on other systems)
	@$(BIN)/python -m tests.drivers.fpga.guest.packages
	$(BIN)/python -m pytest -m guest tests/drivers

faults: $(VENV)/.developer ## kill -9 drivers 200 times at random moments, the control plane a third as often (KILLS=n, SEED=n)
	KILLS=$${KILLS:-200} $(BIN)/python -m pytest -s tests/faults tests/drivers/gpu_mig/test_kill_minus_nine_at_any_moment.py

bench: $(VENV)/.developer ## figures; see benchmarks/README.md
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.allocator
	$(BIN)/python -m benchmarks.waiting
	$(BIN)/python -m benchmarks.uevents

soak: $(VENV)/.developer ## 5,000 pods come and go on `dradriver up`; what its processes grow by (PODS=n; a quarter of an hour)
	$(BIN)/python -m benchmarks.soak --pods $${PODS:-5000}

proto: $(VENV)/.developer ## generate dradriver/wire from proto/
	cd proto && find kubelet -name '*.proto' | sort | sed 's|^|dradriver/wire/|' | xargs \
		../$(BIN)/python -m grpc_tools.protoc -Idradriver/wire=. --python_out=.. --pyi_out=.. --grpc_python_out=..

clean: ## remove what the other commands made
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
