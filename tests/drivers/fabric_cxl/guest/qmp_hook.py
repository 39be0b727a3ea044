"""Hardware of the emulated fabric: each host is a running guest.

`python -m tests.drivers.fabric_cxl.guest.qmp_hook HOST=SOCKET...` reads a `HardwareCall` as one JSON object. It
plugs the memory into the guest of its host or unplugs it. The same call may come again. The exit status is 0 if
the guest is as the call wants it; otherwise the reason is on stderr. The outcome is also on stdout, for calls
from a guest.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.drivers.fabric_cxl.guest.qmp import QmpError, open_qmp
from tests.drivers.fabric_cxl.guest.slots import plug, unplug

DONE = "done"
"""The outcome of a call that succeeded."""
ROOT = Path(__file__).parents[4]


def write_hook(file: Path, hosts: Mapping[str, Path]) -> Path:
    """Write a program that calls this module; return its path.

    Args:
        file: the program.
        hosts: socket of QEMU's by ID of the host.
    """
    words = " ".join(f"'{host}={path}'" for host, path in hosts.items())
    file.write_text(f"#!/bin/sh\nPYTHONPATH='{ROOT}' exec '{sys.executable}' -m {__name__} {words}\n")
    file.chmod(0o755)
    return file


def apply(call: Mapping[str, object], hosts: Mapping[str, Path]) -> None:
    """Apply a call.

    Raises:
        QmpError: QEMU rejects it, or the host is not a guest.
        OSError: the guest does not run.
    """
    host, serial, size = str(call["host"]), call["serial"], call["bytes"]
    assert isinstance(serial, int)
    assert isinstance(size, int)
    if host not in hosts:
        raise QmpError(f"{host} is not a guest")
    if call["kind"] != "memory":
        raise QmpError("guests have only memory")
    with open_qmp(hosts[host]) as qmp:
        if call["operation"] == "connect":
            plug(qmp, serial, size)
        else:
            unplug(qmp, serial)


def main(arguments: Sequence[str]) -> int:
    """Apply the call in the standard input; return the exit status."""
    hosts = {host: Path(path) for host, _, path in (each.partition("=") for each in arguments)}
    try:
        apply(json.loads(sys.stdin.readline()), hosts)
    except (OSError, QmpError) as error:
        print(error, flush=True)
        print(error, file=sys.stderr)
        return 1
    print(DONE, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
