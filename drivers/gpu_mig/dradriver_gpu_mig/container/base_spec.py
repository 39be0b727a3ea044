"""What NVIDIA's container toolkit found out about this node, from the CDI spec that it keeps."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

import dradriver as dra

__all__ = ["toolkit_edits"]

_KIND: Final = "nvidia.com/gpu"


def toolkit_edits(folders: tuple[Path, ...], version: str) -> dra.ContainerEdits | None:
    """The edits that all devices of the toolkit's spec share; None where none is for this driver. Blocking.

    A spec of the driver that was here before an upgrade names files that are gone, and containers would not
    start with it: it counts only if it mounts a library of this version.

    Args:
        folders: of CDI specs.
        version: the driver's.
    """
    for path in _specs(folders):
        try:
            text = path.read_text()
            if _KIND not in text:  # one of the many specs of claims
                continue
            spec: dict[str, Any] = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
            edits = msgspec.convert(spec.get("containerEdits", {}), dra.ContainerEdits)
        except (OSError, ValueError, yaml.YAMLError, AttributeError):
            continue  # another tool's mistake; the runtime tells it
        ours = any(mount.host_path.endswith(f".so.{version}") for mount in edits.mounts)
        if spec.get("kind") == _KIND and ours:
            return edits
    return None


def _specs(folders: tuple[Path, ...]) -> Iterator[Path]:
    for folder in folders:
        if folder.is_dir():
            yield from sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".json"})
