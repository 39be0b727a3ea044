"""Reads the CDI specs of a folder, as a container runtime does."""

from collections.abc import Iterable
from pathlib import Path

import yaml

from dradriver.cluster.runtime.base import ContainerStartError
from dradriver.errors import InvalidObjectError
from dradriver.model.cdi import CdiSpec, ContainerEdits
from dradriver.model.encoding.codec import decode, from_builtins

__all__ = ["find_edits"]


def find_edits(folder: Path, names: Iterable[str]) -> ContainerEdits:
    """Return the edits of these qualified device names.

    The common edits of a spec come before the edits of its devices.

    Raises:
        ContainerStartError: a name is in no spec of the folder, or in two specs. The message names broken
            files.
    """
    wanted = tuple(dict.fromkeys(names))
    if not wanted:
        return ContainerEdits()
    specs, broken = _read_specs(folder)
    result = ContainerEdits()
    used: set[int] = set()
    for name in wanted:
        index, device = _find_device(specs, name, folder, broken)
        if index not in used:
            used.add(index)
            result |= specs[index].container_edits
        result |= device
    return result


def _find_device(
    specs: list[CdiSpec], name: str, folder: Path, broken: list[str]
) -> tuple[int, ContainerEdits]:
    kind, _, device_name = name.partition("=")
    found = [
        (index, device.container_edits)
        for index, spec in enumerate(specs)
        if spec.kind == kind
        for device in spec.devices
        if device.name == device_name
    ]
    if len(found) != 1:
        problem = "is in no CDI spec" if not found else f"is in {len(found)} CDI specs"
        hint = f"; unreadable: {'; '.join(broken)}" if broken else ""
        raise ContainerStartError("CreateContainerError", f"CDI device {name} {problem} of {folder}{hint}")
    return found[0]


def _read_specs(folder: Path) -> tuple[list[CdiSpec], list[str]]:
    """Return the readable specs, and the faults of the other files.

    A broken file does not affect other files.
    """
    specs: list[CdiSpec] = []
    broken: list[str] = []
    for path in sorted(folder.glob("*")):
        try:
            if path.suffix == ".json":
                specs.append(decode(CdiSpec, path.read_bytes(), path.name))
            elif path.suffix in {".yaml", ".yml"}:
                specs.append(from_builtins(CdiSpec, yaml.safe_load(path.read_bytes()), path.name))
        except (OSError, InvalidObjectError, yaml.YAMLError) as error:
            broken.append(f"{path.name}: {error}")
    return specs, broken
