"""Identify the current boot of the machine."""

from pathlib import Path

from dradriver.errors import UsageError

__all__ = ["current_boot_id"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def current_boot_id() -> str:
    """Return a text that differs after each boot.

    Raises:
        UsageError: the kernel does not provide it.
    """
    try:
        return _BOOT_ID.read_text().strip()
    except OSError as error:
        raise UsageError(f"the boot ID can't be read: {error}") from error
