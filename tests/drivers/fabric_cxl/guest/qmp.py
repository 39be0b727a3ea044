"""A client of QMP, QEMU's protocol for changes of a running machine. QEMU serves one client at a time."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO


class QmpError(Exception):
    """QEMU rejected a command; the message is QEMU's."""


class Qmp:
    """A connection; see `open_qmp`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._read()  # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: object) -> Any:
        """Execute a command; return its result.

        Args:
            command: name of the command.
            arguments: its arguments; an underscore in a name is a hyphen in QMP.

        Raises:
            QmpError: QEMU rejected it.
        """
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        self._stream.write(json.dumps({"execute": command, "arguments": named}) + "\n")
        self._stream.flush()
        while True:
            answer = self._read()
            if "error" in answer:
                raise QmpError(answer["error"]["desc"])
            if "return" in answer:
                return answer["return"]  # all else are events

    def _read(self) -> dict[str, Any]:
        line = self._stream.readline()
        if not line:
            raise QmpError("QEMU has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def open_qmp(path: Path) -> Iterator[Qmp]:
    """Yield a connection to QEMU's socket. It waits until QEMU serves no other client.

    Raises:
        OSError: there is no QEMU.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        with connection.makefile("rw") as stream:
            yield Qmp(stream)
