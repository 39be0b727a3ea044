"""Reads the edits that all devices share from the CDI spec of NVIDIA's container toolkit."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

import dradriver as dra

__all__ = ["read_toolkit_edits"]

_KIND: Final = "nvidia.com/gpu"


def read_toolkit_edits(folders: tuple[Path, ...], version: str) -> dra.ContainerEdits | None:
    """Return the edits that all devices of the toolkit's spec share. Blocking.

    A spec for an earlier driver version names files that no longer exist, and containers would not start with
    it. A spec is therefore used only if it mounts a library of this version.

    Args:
        folders: folders with CDI specs, in order of precedence.
        version: version of the installed driver.

    Returns:
        The edits, or None if no spec is for this driver version.
    """
    for path in _list_specs(folders):
        try:
            text = path.read_text()
            if _KIND not in text:  # most specs in the folders belong to claims
                continue
            spec: dict[str, Any] = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
            edits = msgspec.convert(spec.get("containerEdits", {}), dra.ContainerEdits)
        except (OSError, ValueError, yaml.YAMLError, AttributeError):
            continue  # another tool wrote the file; the container runtime reports the error
        is_current = any(make_mount.host_path.endswith(f".so.{version}") for make_mount in edits.mounts)
        if spec.get("kind") == _KIND and is_current:
            return edits
    return None


def _list_specs(folders: tuple[Path, ...]) -> Iterator[Path]:
    for folder in folders:
        if folder.is_dir():
            yield from sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".json"})
