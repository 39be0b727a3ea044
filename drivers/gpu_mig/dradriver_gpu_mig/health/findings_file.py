"""Reads and writes the file of findings. Blocking.

The file is replaced atomically. If a process dies before the write, the new findings are lost. Their taints may
be published already. The next process then removes them.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from dradriver_gpu_mig.health.findings import Finding

__all__ = ["read_findings", "write_findings"]

_log: Final = logging.getLogger(__name__)


class _FindingsFile(msgspec.Struct, frozen=True):
    boot: str
    findings: list[Finding]


def read_findings(path: Path, boot: str) -> list[Finding]:
    """Return the findings of this boot.

    Findings of an earlier boot are dropped, because a reboot resets the GPUs.

    Args:
        path: the file.
        boot: ID of the present boot.
    """
    try:
        content = msgspec.json.decode(path.read_bytes(), type=_FindingsFile)
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        _log.warning("%s cannot be read, earlier findings are lost: %s", path, error)
        return []
    return content.findings if content.boot == boot else []


def write_findings(path: Path, boot: str, findings: Sequence[Finding]) -> None:
    """Write the findings. If the write fails, a new process does not know the findings; nothing else is lost.

    Args:
        path: the file.
        boot: ID of the present boot.
        findings: all findings.
    """
    temporary = path.with_suffix(".new")
    try:
        temporary.write_bytes(msgspec.json.encode(_FindingsFile(boot, list(findings))))
        temporary.replace(path)
    except OSError as error:
        _log.warning("%s cannot be written, a new process will not know these findings: %s", path, error)
