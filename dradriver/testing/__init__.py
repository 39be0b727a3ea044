"""The test kit for driver authors: a pytest plugin, a harness, builders, and the contract of every driver.

Law of this package: it is for tests and never runs in production. It uses the real node side (state file,
locks, CDI specs) and the real allocator. Only gRPC, the kubelet and the API server are missing, or, with the
fixture `cluster`, embedded. The exception is the storage of simulated hardware (`SimulatedState`), which a
driver's own simulator uses. Loading the pytest plugin imports nothing heavy; therefore the names below are
resolved on first use.

Modules:

- `plugin`: the pytest fixtures `driver_harness` and `cluster`.
- `harness`: `Harness`, a driver that is discovered, allocated, prepared and restarted in one process.
- `contract`: `DriverContract`, tests that every driver must pass.
- `process`: one life of a driver's process, without gRPC.
- `builders`: Kubernetes objects with defaults, one line each.
- `configs`: the errors in opaque parameters as users see them.
- `simulated_state`: storage for the state of simulated hardware.
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
    from dradriver.testing.configs import config_mistakes
    from dradriver.testing.contract import DriverContract
    from dradriver.testing.harness import Harness, PreparedClaim
    from dradriver.testing.process import ProcessDiedError
    from dradriver.testing.simulated_state import SimulatedState, StateInFile, StateInMemory

__all__ = [
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
    "config_mistakes",
    "device",
    "device_class",
    "device_request",
    "node",
    "opaque",
    "pod",
    "slice_",
]

_ALLOCATING = {"dradriver.testing.contract", "dradriver.testing.harness"}
"""Modules that need the allocator."""
_HOMES = {
    "DriverContract": "dradriver.testing.contract",
    "Harness": "dradriver.testing.harness",
    "PreparedClaim": "dradriver.testing.harness",
    "ProcessDiedError": "dradriver.testing.process",
    "SimulatedState": "dradriver.testing.simulated_state",
    "StateInFile": "dradriver.testing.simulated_state",
    "StateInMemory": "dradriver.testing.simulated_state",
    "CrashPoint": "dradriver.node.crash_points",
    "config_mistakes": "dradriver.testing.configs",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "dradriver.testing.builders")
    if home in _ALLOCATING:
        require("scheduler", f"dradriver.testing.{name}")
    return getattr(import_module(home), name)
