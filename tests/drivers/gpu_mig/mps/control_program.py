#!/usr/bin/python3 -IS
"""A fake nvidia-cuda-mps-control. It needs only the standard library, because it runs in another root.

With `-d`, it starts a daemon in the background, like NVIDIA's program. Otherwise, it sends each line of its
input to the daemon, and prints the answers. What it has received is in `state.json` of its log folder. Files
below its root change what it does:

- /run/never-answers: the daemon starts, and does not listen.
- /run/rejects-limits: the daemon rejects every limit.
- /run/knows-ordinals-only: the daemon accepts no memory limit for a UUID.
- /run/has-client: the daemon starts with a server, as if a client had connected.

As in NVIDIA's program (580.159), the status is 0 whenever a daemon answers, also if it rejects the request. The
answer to a new percentage is the percentage in force. A new memory limit has an empty answer, so only a request
for the limit shows whether there is one.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

KNOWS_ORDINALS_ONLY = Path("/run/knows-ordinals-only")
HAS_CLIENT = Path("/run/has-client")
REJECTS_LIMITS = Path("/run/rejects-limits")
SOCKET = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", ""), "control")


class ControlState:
    """What the daemon was sent."""

    def __init__(self) -> None:
        self.log = Path(os.environ["CUDA_MPS_LOG_DIRECTORY"])
        self.devices = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
        self.values: dict[str, Any] = {
            "pid": os.getpid(),
            "environment": read_environment(),
            "arguments": sys.argv[1:],
            "devices": self.devices,
            "percentage": read_number(os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")),
            "limits": {},
            "server": start_server() if HAS_CLIENT.exists() else None,
        }
        if REJECTS_LIMITS.exists():
            self.values["percentage"] = None
        self.write()

    def write(self) -> None:
        new = self.log / "state.new"
        new.write_text(json.dumps(self.values))
        new.rename(self.log / "state.json")

    def get_percentage(self) -> str:
        return f"{self.values['percentage'] or 100:.1f}"

    def find_device(self, name: str) -> str:
        """Return the UUID of a device that is named by it or by its ordinal; an empty text if it is unknown."""
        if name.isdigit():
            return self.devices[int(name)]
        return name if name in self.devices and not KNOWS_ORDINALS_ONLY.exists() else ""

    def find_server(self) -> str:
        """Return the PID of the server, or an empty text if it has ended."""
        server = self.values["server"]
        if server is None or os.waitpid(server, os.WNOHANG) != (0, 0):
            self.values["server"] = None
            return ""
        return str(server)

    def answer(self, request: str) -> str:
        match request.split():
            case ["get_server_list"]:
                return self.find_server()
            case ["get_default_active_thread_percentage"]:
                return self.get_percentage()
            case ["get_default_device_pinned_mem_limit", name]:
                limit = self.values["limits"].get(self.find_device(name), 0)
                return f"{limit >> 10}G" if limit >> 10 else f"{limit}M" if limit else ""
            case ["quit"]:
                return ""
            case words:
                answer = self.change(words)
        self.write()
        return answer

    def change(self, words: list[str]) -> str:
        match words:
            case ["set_default_active_thread_percentage", percentage]:
                if not REJECTS_LIMITS.exists():
                    self.values["percentage"] = int(percentage)
                return self.get_percentage()
            case ["set_default_device_pinned_mem_limit", name, limit]:
                device = self.find_device(name)
                if device and not REJECTS_LIMITS.exists():
                    self.values["limits"][device] = int(limit.removesuffix("M"))
                return ""
            case _:
                return f'Unknown command "{" ".join(words)}"'


def start_server() -> int:
    """Start a process that waits for its end, and return its PID."""
    server = os.fork()
    if server == 0:
        signal.pause()
    return server


def read_number(text: str | None) -> int | None:
    return None if text is None else int(text)


def read_environment() -> dict[str, str]:
    """Return the environment as it was passed. Python adds a variable of its own to it."""
    content = Path("/proc/self/environ").read_text()
    return dict(line.split("=", 1) for line in content.split("\0") if line)


def serve() -> None:
    state = ControlState()
    with (state.log / "control.log").open("a") as log:
        log.write(f"starting control daemon {os.getpid()}\n")
        if Path("/run/never-answers").exists():
            log.write("no CUDA-capable device is detected\n")
    if Path("/run/never-answers").exists():
        signal.pause()
    Path("/dev/shm", f"cuda.mps.{os.getpid()}").write_text("shared memory")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(SOCKET))
    server.listen()
    while True:
        connection, _ = server.accept()
        with connection, connection.makefile("rw") as stream:
            request = stream.readline().strip()
            stream.write(state.answer(request))
        if request == "quit":
            return


def send(request: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(SOCKET))
        except OSError as error:
            print(f"Cannot find MPS control daemon process: {error}", file=sys.stderr)
            return 1
        with connection.makefile("rw") as stream:
            stream.write(request)
            stream.flush()
            answer = stream.read()
    print(answer)
    return 0


def main() -> int:
    if "-d" in sys.argv:
        if os.fork() == 0:
            serve()
        return 0
    return max(send(line) for line in sys.stdin)


if __name__ == "__main__":
    sys.exit(main())
