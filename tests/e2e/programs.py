"""The programs of a real Kubernetes, built once into a cache folder outside the checkout.

`KUBEBUILDER_ASSETS`, the ecosystem's name for a folder of such programs, is looked into first: what it
holds is used as it is. Everything else is built from the Go modules in `go/`.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KUBERNETES: Final = "1.37.0"
GO: Final = shutil.which("go")
_SOURCES: Final = Path(__file__).with_name("go")
_VERSION: Final = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES.split(".")
_KUBERNETES_FLAGS: Final = (
    f"-s -w -X {_VERSION}.gitVersion=v{KUBERNETES} -X {_VERSION}.gitMajor={_MAJOR} "
    f"-X {_VERSION}.gitMinor={_MINOR} -X {_VERSION}.gitTreeState=clean"
)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a program comes from.

    Attributes:
        module: the folder of `go/` whose go.mod pins it.
        package: its main package.
        ldflags: flags of the linker.
    """

    module: str
    package: str
    ldflags: str = "-s -w"


PROGRAMS: Final[Mapping[str, Source]] = {
    "etcd": Source("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": Source("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", _KUBERNETES_FLAGS),
}
"""What can be built: one row a program."""


def cache_folder() -> Path:
    """Where built programs are kept, by version of Kubernetes."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dradriver" / f"kubernetes-{KUBERNETES}"


def find(name: str) -> Path | None:
    """The program, if it is there already."""
    folders = [Path(given)] if (given := os.environ.get("KUBEBUILDER_ASSETS")) else []
    return next((each / name for each in (*folders, cache_folder()) if (each / name).exists()), None)


def missing() -> str:
    """Why the programs can't be had here, "" if they can."""
    absent = [name for name in PROGRAMS if find(name) is None]
    if not absent or GO is not None:
        return ""
    places = f"neither in {cache_folder()} nor in KUBEBUILDER_ASSETS"
    return f"Go is not installed, and {', '.join(absent)}: {places}"


def program(name: str) -> Path:
    """The program, built first where it is missing. Blocking: minutes from empty caches.

    A build that dies leaves nothing that would be taken for a program, and two builds at once do not
    disturb each other: the second one waits and finds what the first one made.
    """
    found = find(name)
    if found is not None:
        return found
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return find(name) or _build(name, folder)


def _build(name: str, folder: Path) -> Path:
    assert GO is not None, missing()
    source, unfinished = PROGRAMS[name], folder / f"{name}.new"
    command = (GO, "build", "-trimpath", "-ldflags", source.ldflags, "-o", str(unfinished), source.package)
    subprocess.run(command, cwd=_SOURCES / source.module, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    return unfinished.replace(folder / name)
