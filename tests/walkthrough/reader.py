"""Executes the commands of a page as a reader types them: in one folder, with two terminals."""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from tests.walkthrough.output import is_shown
from tests.walkthrough.pages import Command, File, Heading, read_page

__all__ = ["Handler", "Reader", "opened_folder"]

ROOT: Final = Path(__file__).parents[2]
LIMIT_SECONDS: Final = 120.0
_OBSERVES: Final = re.compile(
    r"(dradriver (get|explain|node)|kubectl (get|describe|logs)|kubectl -n \S+ (get|logs))\b"
)
"""Commands that a reader repeats until the cluster has done its work."""
_FAILS: Final = re.compile(r"[1-9] error\(s\)|is invalid:|Error")
"""The output of commands that fail on purpose."""
_KEEPS: Final = re.compile(r"(cd|export|\.) ")
"""Commands that change the terminal, so the following commands of the page depend on them."""
_UP: Final = re.compile(r"(?:\w+=\S+ )*dradriver up\b")

Handler = Callable[["Reader", str], str]


class Reader:
    """Reads pages in a folder whose neighbor is a checkout of dradriver.

    Attributes:
        printed: the output of each command.

    Args:
        folder: the folder. It is also the home of the user.
        handlers: what is executed instead of a command that matches a pattern. A handler returns the output.
        up_options: additional options of `dradriver up`.
        variables: additional environment variables.
    """

    def __init__(
        self,
        folder: Path,
        handlers: Mapping[str, Handler],
        *,
        up_options: str = "",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._up_options = up_options
        self._handlers = handlers
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "KUBECONFIG"}},
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / ".local/share"),
            **(variables or {}),
        }
        self.printed: dict[str, str] = {}
        self._terminal: list[str] = ["set -o pipefail"]
        self._up: subprocess.Popen[str] | None = None
        self._log = folder / "up.log"

    def __enter__(self) -> Self:
        if not (self.folder / "dradriver").exists():
            (self.folder / "dradriver").symlink_to(ROOT)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def read(self, page: str, *, name: str = "", until: str = "", after: str = "") -> None:
        """Execute the commands of a page, and write the files that it shows.

        Args:
            page: the text of the page.
            name: the page in messages.
            until: the heading at which the reader stops.
            after: the heading at which the reader starts.
        """
        parts = list(read_page(page))
        first = parts.index(Heading(after)) if after else 0
        last = parts.index(Heading(until)) if until else len(parts)
        assert any(isinstance(part, Command) for part in parts[first:last]), f"{name}: no commands"
        for part in parts[first:last]:
            match part:
                case File(_, path, text):
                    (self.working_folder / path).parent.mkdir(parents=True, exist_ok=True)
                    (self.working_folder / path).write_text(text)
                case Command():
                    self._type(part, f"{name}:{part.line}")
                case _:
                    pass

    @contextmanager
    def replacing(self, handlers: Mapping[str, Handler]) -> Iterator[None]:
        """Use other handlers for some pages."""
        before, self._handlers = self._handlers, handlers
        try:
            yield
        finally:
            self._handlers = before

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the terminal of the page; its output has both streams."""
        return subprocess.run(
            ("bash", "-c", "\n".join([*self._terminal, command])),
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def keep(self, command: str) -> None:
        """Let a command such as `export` be in force for the following commands."""
        self._terminal.append(command)

    @property
    def working_folder(self) -> Path:
        """Return the folder of the terminal."""
        return Path(self.run("pwd").stdout.strip())

    def stop(self) -> None:
        """Press Ctrl-C in the terminal of `dradriver up`."""
        if self._up is not None:
            self._up.send_signal(signal.SIGINT)
            self._up.wait()
            self._up = None

    def _type(self, command: Command, where: str) -> None:
        handler = next((each for each in self._handlers if re.match(each, command.text)), "")
        if handler:
            printed, code = self._handlers[handler](self, command.text), 0
        elif _UP.match(command.text):
            self._start(command.text, where)
            return
        elif _KEEPS.match(command.text):
            self.keep(command.text)
            printed, code = "", 0
        else:
            printed, code = self._repeat(command)
        shown = command.output
        self.printed[command.text] = printed
        assert code == 0 or _FAILS.search(shown or ""), f"{where}: {command.text}: exit code {code}\n{printed}"
        assert shown is None or is_shown(printed, shown), (
            f"{where}: {command.text}\n--- the page shows\n{shown}--- printed\n{printed}"
        )

    def _repeat(self, command: Command) -> tuple[str, int]:
        """Run a command. If it observes the cluster, repeat it until it prints what the page shows."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while True:
            done = self.run(command.text)
            is_expected = command.output is None or is_shown(done.stdout, command.output)
            if is_expected or not _OBSERVES.match(command.text) or time.monotonic() > deadline:
                return done.stdout, done.returncode
            time.sleep(0.1)

    def _start(self, command: str, where: str) -> None:
        """Start a cluster in another terminal, in place of the one that runs; wait until it is ready."""
        self.stop()
        with self._log.open("w") as log:
            self._up = subprocess.Popen(
                ("bash", "-c", "\n".join([*self._terminal, f"exec env {command} {self._up_options}"])),
                cwd=self.folder,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        deadline = time.monotonic() + LIMIT_SECONDS
        while "In another terminal:" not in self._log.read_text():
            report = f"{where}: {command}:\n{self._log.read_text()}"
            assert self._up.poll() is None, report
            assert time.monotonic() < deadline, report
            time.sleep(0.05)


@contextmanager
def opened_folder() -> Iterator[Path]:
    """Return a new folder with a short path, because paths of sockets in it have at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        yield Path(folder)
