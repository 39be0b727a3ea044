"""Compare the machine before and after a run of the tests: a difference fails the run."""

import os
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.e2e.bed import cgroups, changes

MARK: Final = "DRADRIVER_E2E"
"""The environment variable by which a process that the tests started is known."""
_PATIENCE: Final = 30.0
_COUNT_BY_THEMSELVES: Final = re.compile(
    r"fs/(aio-nr|dentry-state|file-nr|inode-nr|inode-state|quota/.*)|kernel/(ns_last_pid|pty/nr|random/.*)"
    r"|net/netfilter/nf_conntrack_count|kernel/(tainted|perf_event_max_sample_rate)|.*/(nr_free|.*_count)"
)


def _run(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _processes() -> Iterator[str]:
    mark = f"{MARK}={os.environ.get(MARK, '')}\0"
    for each in Path("/proc").glob("[0-9]*"):
        if mark in _text(each / "environ") + "\0" and each.name != str(os.getpid()):
            command = _text(each / "cmdline").replace("\0", " ")
            # A program that has ended has no command line.
            if command:
                yield f"{each.name} {command}"


def _mounts() -> Iterator[str]:
    for line in _text(Path("/proc/self/mountinfo")).splitlines():
        place, _, kind = line.partition(" - ")
        yield f"{place.split()[4]} {kind}"


def _links() -> Iterator[str]:
    yield from _run("ip", "-brief", "address").splitlines()
    yield from _run("ip", "-4", "route", "show", "table", "all").splitlines()


def _network_namespaces() -> Iterator[str]:
    yield from _run("ip", "netns", "list").splitlines()
    for each in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            yield str(each.readlink())
        except OSError:
            continue


def _packet_filters() -> Iterator[str]:
    for command in (("iptables-save",), ("ip6tables-save",), ("nft", "list", "ruleset")):
        for line in _run(*command).splitlines():
            if line and not line.startswith("#"):
                yield re.sub(r"\[\d+:\d+\]|packets \d+ bytes \d+", "", line)


def _sysctls() -> Iterator[str]:
    root = Path("/proc/sys")
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            relative = str(path.relative_to(root))
            if not _COUNT_BY_THEMSELVES.fullmatch(relative):
                yield f"{relative} = {_text(path)}"


def _control_groups() -> Iterator[str]:
    for folder, _, _ in os.walk(cgroups.ROOT):
        yield folder


def _folders() -> Iterator[str]:
    for each in (*changes.FOLDERS, "/var/log/pods", "/var/log/containers", "/var/lib/cni", "/opt/cni"):
        for folder, _, names in os.walk(each):
            yield folder
            yield from (f"{folder}/{name}" for name in names)
    yield from (str(each) for each in changes.PLACE.glob(f"{changes.PREFIX}*/"))


_LOOKS: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    "process": _processes,
    "mount": _mounts,
    "link": _links,
    "network namespace": _network_namespaces,
    "packet filter": _packet_filters,
    "sysctl": _sysctls,
    "control group": _control_groups,
    "folder": _folders,
}


def _belongs_to_others(kind: str, sign: str, what: str) -> bool:
    """Return whether another program made a control group or a network namespace.

    The groups of a bed are empty by now. A bed removes no network namespace that it did not make.
    """
    if sign == "-":
        return kind in {"control group", "network namespace"}
    return kind == "control group" and bool(_text(Path(what, "cgroup.procs")))


class Machine:
    """The state of the machine before the tests, for a comparison at the end.

    Attributes:
        compared: the kinds that the last comparison covered.
    """

    def __init__(self) -> None:
        os.environ[MARK] = uuid.uuid4().hex
        changes.sweep()
        self.compared: tuple[str, ...] = ()
        self._alone = not changes.running_beds()
        self._found = self._look()

    def _look(self) -> dict[str, frozenset[str]]:
        return {kind: frozenset(look()) for kind, look in _LOOKS.items()}

    def differences(self) -> list[str]:
        """Return the differences to the state before, after a wait for processes that are ending.

        While another bed runs, only processes are compared.
        """
        deadline = time.monotonic() + _PATIENCE
        while (found := self._differences()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    def _differences(self) -> list[str]:
        self.compared = tuple(_LOOKS) if self._alone and not changes.running_beds() else ("process",)
        now = self._look()
        return [
            f"{sign} {kind}: {each}"
            for kind in self.compared
            for sign, many in (("+", now[kind] - self._found[kind]), ("-", self._found[kind] - now[kind]))
            for each in sorted(many)
            if not _belongs_to_others(kind, sign, each)
        ]
