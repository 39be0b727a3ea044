"""Operator settings of a node: YAML in `$FABRIC_CXL_SETTINGS`."""

from typing import Annotated, Final

import msgspec
import yaml

import dradriver as dra

__all__ = ["VARIABLE", "CxlHostSettings", "CxlNodeSettings", "CxlNodeSimulatorSettings", "read_settings"]

VARIABLE: Final = "FABRIC_CXL_SETTINGS"


class _Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class CxlHostSettings(_Strict, frozen=True):
    """Paths of the node's files, as this process sees them.

    Attributes:
        sysfs, dev, proc: mount points.
    """

    sysfs: str = "/sys"
    dev: str = "/dev"
    proc: str = "/proc"


class CxlNodeSimulatorSettings(_Strict, frozen=True):
    """Memory and accelerators that are simulated on a node without CXL.

    Attributes:
        folder: folder of the simulation, which the pool driver and all simulated nodes share; "": a folder of
            the user below the folder of temporary files.
    """

    folder: str = ""


class CxlNodeSettings(_Strict, frozen=True):
    """The settings; `docs/drivers/fabric-cxl.md` explains each setting.

    Attributes:
        clear: whether memory is overwritten with zeros before a claim gets it. Otherwise the claim can read
            what the last owner left.
        system_ram: whether claims may use memory as system RAM. Every process of the node can get it.
        wait_seconds: seconds until a device that the fabric has attached must appear on the node.
        host: paths of the node's files.
        simulator: the simulated hardware.
    """

    clear: bool = True
    system_ram: bool = False
    # `FabricCxlDriver.attach_timeout_seconds` is larger, so that the driver's own error comes first.
    wait_seconds: Annotated[float, msgspec.Meta(gt=0, le=480)] = 60.0
    host: CxlHostSettings = CxlHostSettings()
    simulator: CxlNodeSimulatorSettings = CxlNodeSimulatorSettings()


def read_settings(text: str) -> CxlNodeSettings:
    """Return the settings.

    Args:
        text: YAML; empty: all defaults.

    Raises:
        UsageError: the text is invalid.
    """
    try:
        return msgspec.convert(yaml.safe_load(text) or {}, CxlNodeSettings)
    except yaml.YAMLError as error:
        raise dra.UsageError(f"${VARIABLE}: invalid YAML: {error}") from error
    except msgspec.ValidationError as error:
        raise dra.UsageError(f"${VARIABLE}: {error}") from error
