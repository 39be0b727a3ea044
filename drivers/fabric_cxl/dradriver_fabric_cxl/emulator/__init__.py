"""An emulator of a Redfish fabric manager, for tests and demonstrations.

It has a small CXL fabric: memory domains whose chunks connect to hosts, and one accelerator. The objects that
clients create are in a file, so the process can be killed at any moment. The simulated hardware behind the
fabric is a hook.
"""

from dradriver_fabric_cxl.emulator.hooks import HardwareCall, HardwareHook, NoHook, ProgramHook
from dradriver_fabric_cxl.emulator.server import Emulator
from dradriver_fabric_cxl.emulator.settings import Answers, EmulatorSettings

__all__ = ["Answers", "Emulator", "EmulatorSettings", "HardwareCall", "HardwareHook", "NoHook", "ProgramHook"]
