"""The test kit for driver authors: a pytest plugin, a harness, builders, and contract tests for every driver.

Rule of this package: it is for tests and never runs in production, except for the storage of simulated hardware
(`SimulatedState`), which a driver's own simulator uses. The package uses the real node side (state file, locks,
CDI specs) and the real allocator. A `Harness` has no gRPC, kubelet or API server. The fixture `cluster` embeds
all three in the test's process. Loading the pytest plugin must be fast, so the names in `__all__` are imported
when they are first used.

Modules:

- `plugin`: the pytest fixtures `driver_harness` and `cluster`.
- `harness`: `Harness`, which discovers, allocates, prepares and restarts a driver in one process.
- `contract`: `DriverContract`, the tests that every driver must pass.
- `controller_harness`: `ControllerHarness`, which calls a `ControllerDriver` as the SDK does.
- `controller_contract`: `ControllerContract`, the tests that every `ControllerDriver` must pass.
- `process`: simulates one process of a driver, without gRPC.
- `builders`: builds Kubernetes objects with defaults.
- `configs`: returns the errors in opaque parameters, as users see them.
- `simulated_state`: stores the state of simulated hardware.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dradriver.extras import require

if TYPE_CHECKING:
    from dradriver.node.crash_points import CrashPoint
    from dradriver.testing.builders import (
        allocated,
        claim,
        device,
        device_class,
        device_request,
        node,
        opaque,
        pod,
        slice_,
    )
    from dradriver.testing.configs import list_config_errors
    from dradriver.testing.contract import DriverContract
    from dradriver.testing.controller_contract import ControllerContract
    from dradriver.testing.controller_harness import ControllerHarness
    from dradriver.testing.harness import Harness, PreparedClaim
    from dradriver.testing.process import ProcessDiedError
    from dradriver.testing.simulated_state import SimulatedState, StateInFile, StateInMemory

__all__ = [
    "ControllerContract",
    "ControllerHarness",
    "CrashPoint",
    "DriverContract",
    "Harness",
    "PreparedClaim",
    "ProcessDiedError",
    "SimulatedState",
    "StateInFile",
    "StateInMemory",
    "allocated",
    "claim",
    "device",
    "device_class",
    "device_request",
    "list_config_errors",
    "node",
    "opaque",
    "pod",
    "slice_",
]

_ALLOCATING = {"dradriver.testing.contract", "dradriver.testing.harness"}
"""Modules that need the allocator."""
_MODULES = {
    "ControllerContract": "dradriver.testing.controller_contract",
    "ControllerHarness": "dradriver.testing.controller_harness",
    "DriverContract": "dradriver.testing.contract",
    "Harness": "dradriver.testing.harness",
    "PreparedClaim": "dradriver.testing.harness",
    "ProcessDiedError": "dradriver.testing.process",
    "SimulatedState": "dradriver.testing.simulated_state",
    "StateInFile": "dradriver.testing.simulated_state",
    "StateInMemory": "dradriver.testing.simulated_state",
    "CrashPoint": "dradriver.node.crash_points",
    "list_config_errors": "dradriver.testing.configs",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES.get(name, "dradriver.testing.builders")
    if module in _ALLOCATING:
        require("scheduler", f"dradriver.testing.{name}")
    return getattr(import_module(module), name)
