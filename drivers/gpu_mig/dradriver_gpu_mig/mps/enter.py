"""Runs a program with the namespaces and the root of another process, as nsenter(1) does.

`python -I enter.py FOLDER NAMESPACES PROGRAM ARGUMENT...`: FOLDER is the other process' folder in procfs, and
NAMESPACES are the names of files in its folder `ns`, separated by commas. The search path is that of the
environment. The driver's image has no programs but Python, so it has no nsenter. This file imports nothing of
the driver, so that it starts fast.

Source: setns(2), namespaces(7).
"""

import ctypes
import os
import sys
from typing import Final, NoReturn

_CANNOT_ENTER: Final = 125
_CANNOT_RUN: Final = 127


def _enter(folder: str, namespaces: list[str]) -> None:
    """Give this process the namespaces and the root of another one."""
    libc = ctypes.CDLL(None, use_errno=True)
    opened = [(name, os.open(f"{folder}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)) for name in namespaces]
    root = os.open(f"{folder}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for name, file in opened:
        if libc.setns(file, 0) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), f"{folder}/ns/{name}")
    os.fchdir(root)
    os.chroot(".")
    os.chdir("/")


def _main(folder: str, namespaces: str, *command: str) -> NoReturn:
    try:
        _enter(folder, namespaces.split(","))
    except OSError as error:
        _fail(_CANNOT_ENTER, f"the namespaces of the node cannot be entered: {error}")
    try:
        os.execvp(command[0], command)  # noqa: S606 - each argument is passed as it is
    except OSError as error:
        _fail(_CANNOT_RUN, f"{command[0]}: {error.strerror}")


def _fail(code: int, message: str) -> NoReturn:
    sys.stderr.write(f"{message}\n")
    sys.exit(code)


if __name__ == "__main__":
    _main(*sys.argv[1:])
