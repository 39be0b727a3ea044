#!/usr/bin/python3 -IS
"""A fake nvidia-cuda-mps-control. It needs only the standard library, because it runs in another root.

With `-d`, it starts a daemon in the background, like NVIDIA's program. Otherwise, it sends each line of its
input to the daemon, and prints the answers. What the daemon was sent is in `state.json` of its log folder. If
the file /run/never-answers exists, the daemon starts, and does not listen. If the file /run/rejects-limits
exists, the daemon rejects every limit. If the file /run/has-server exists, a client has started a server.

As in NVIDIA's program (580.159), the status is 0 whenever a daemon answers, also if it rejects the request: a
percentage is answered with the one in force, a limit of the memory with nothing, and only a question for the
limit tells whether there is one.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

HAS_SERVER = Path("/run/has-server")
SERVER = "4711"
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
            "server": {},
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

    def answer(self, request: str) -> str:
        match request.split():
            case ["get_server_list"]:
                return SERVER if HAS_SERVER.exists() else ""
            case ["get_default_active_thread_percentage"]:
                return self.get_percentage()
            case ["get_default_device_pinned_mem_limit", device]:
                limit = self.values["limits"].get(device, 0)
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
            case ["set_default_device_pinned_mem_limit", device, limit]:
                if not REJECTS_LIMITS.exists():
                    self.values["limits"][device] = int(limit.removesuffix("M"))
                return ""
            case ["set_active_thread_percentage", server, percentage] if server == SERVER:
                self.values["server"]["percentage"] = int(percentage)
                return f"{int(percentage):.1f}"
            case ["set_device_pinned_mem_limit", server, device, limit] if server == SERVER:
                self.values["server"][device] = int(limit.removesuffix("M"))
                return ""
        return f'Unknown command "{" ".join(words)}"'


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
