"""The file of findings. Blocking.

The file is replaced atomically. A process that dies before the write has not published the new findings yet.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from dradriver_gpu_mig.health.findings import Finding

__all__ = ["read_notes", "write_notes"]

_log: Final = logging.getLogger(__name__)


class _Notes(msgspec.Struct, frozen=True):
    boot: str
    findings: list[Finding]


def read_notes(path: Path, boot: str) -> list[Finding]:
    """Return the findings of this boot.

    Those of an earlier boot are dropped, because a reboot resets the GPUs.
    """
    try:
        notes = msgspec.json.decode(path.read_bytes(), type=_Notes)
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        _log.warning("%s can't be read, what was found before is forgotten: %s", path, error)
        return []
    return notes.findings if notes.boot == boot else []


def write_notes(path: Path, boot: str, findings: Sequence[Finding]) -> None:
    """Write the findings. If the write fails, a new process does not know them; nothing else is lost."""
    unfinished = path.with_suffix(".new")
    try:
        unfinished.write_bytes(msgspec.json.encode(_Notes(boot, list(findings))))
        unfinished.replace(path)
    except OSError as error:
        _log.warning("%s can't be written, a new process will not know it: %s", path, error)
