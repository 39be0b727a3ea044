"""The programs of a real Kubernetes, built once into a cache folder outside the checkout.

A program in `KUBEBUILDER_ASSETS`, the ecosystem's folder of such programs, is used as it is. All others are
built from the Go modules in `go/`, and kept by the version of the program.
"""

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SOURCES: Final = (Path(__file__).with_name("go"), Path(__file__).parents[3] / "packaging")
"""Folders of Go modules: those of the tests, and those whose programs are in our image."""


def source_folder(module: str) -> Path:
    """Return the folder of a Go module that pins a program."""
    return next(folder / module for folder in _SOURCES if (folder / module).is_dir())


def version(module: str) -> str:
    """Return the version of the first requirement in the go.mod of a module."""
    text = (source_folder(module) / "go.mod").read_text()
    found = re.search(r"^require \S+ v(\S+)$", text, re.MULTILINE)
    assert found is not None, module
    return found[1]


KUBERNETES: Final = version("kubernetes")
GO: Final = shutil.which("go")
COMPILER: Final = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
_VERSION: Final = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES.split(".")
_KUBERNETES_FLAGS: Final = (
    f"-s -w -X {_VERSION}.gitVersion=v{KUBERNETES} -X {_VERSION}.gitMajor={_MAJOR} "
    f"-X {_VERSION}.gitMinor={_MINOR} -X {_VERSION}.gitTreeState=clean"
)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a program.

    Attributes:
        module: the folder of `go/` or `packaging/` whose go.mod pins it.
        package: its main package.
        ldflags: flags of the linker.
        cgo: whether it is written in C too, so that a C compiler is needed.
        tags: build tags, which leave out what the tests do not use.
    """

    module: str
    package: str
    ldflags: str = "-s -w"
    cgo: bool = False
    tags: str = ""


PROGRAMS: Final[Mapping[str, Source]] = {
    "etcd": Source("etcd", "go.etcd.io/etcd/server/v3"),
    **{
        name: Source("kubernetes", f"k8s.io/kubernetes/cmd/{name}", _KUBERNETES_FLAGS)
        for name in ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubelet", "kubectl")
    },
    **{
        name: Source("containerd", f"github.com/containerd/containerd/v2/cmd/{name}")
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    },
    "ptp": Source("cni", "github.com/containernetworking/plugins/plugins/main/ptp"),
    "host-local": Source("cni", "github.com/containernetworking/plugins/plugins/ipam/host-local"),
    "helm": Source("helm", "helm.sh/helm/v4/cmd/helm"),
    "promtool": Source("prometheus", "github.com/prometheus/prometheus/cmd/promtool", tags="remove_all_sd"),
    "actionlint": Source("actionlint", "github.com/rhysd/actionlint/cmd/actionlint"),
    "nvidia-ctk": Source("nvidia-ctk", "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk", cgo=True),
    "nvidia-cdi-hook": Source(
        "nvidia-ctk",
        "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-cdi-hook",
        '-s -w -linkmode external -extldflags "-static"',
        cgo=True,
        tags="netgo,osusergo",
    ),
}
"""What can be built: one row a program."""


CONTROL_PLANE: Final = ("etcd", "kube-apiserver")
SCHEDULING: Final = ("kube-scheduler", "kube-controller-manager")
NODE: Final = ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr", "ptp", "host-local")
_MINUTES: Final = {"kube-apiserver": 5, "etcd": 1, "containerd": 1, "helm": 1.5}
"""How long a build takes on two cores from empty caches; what is not here takes less than a minute."""


def cache_folder(module: str) -> Path:
    """Return the folder that keeps the programs of a folder of `go/`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dradriver" / f"{module}-{version(module)}"


def find(name: str) -> Path | None:
    """Return the path of a program, None if it is not built yet."""
    folders = [Path(given)] if (given := os.environ.get("KUBEBUILDER_ASSETS")) else []
    places = (*folders, cache_folder(PROGRAMS[name].module))
    return next((each / name for each in places if (each / name).exists()), None)


def missing(*names: str) -> str:
    """Return the reason why programs (default: all) are not available, "" if they are."""
    absent = [name for name in names or PROGRAMS if find(name) is None]
    in_c = [name for name in absent if PROGRAMS[name].cgo]
    if in_c and COMPILER is None:
        return f"no C compiler, which {', '.join(in_c)} takes to build"
    if not absent or GO is not None:
        return ""
    places = f"neither below {cache_folder('kubernetes').parent} nor in KUBEBUILDER_ASSETS"
    return f"Go is not installed, and {', '.join(absent)}: {places}"


def program(name: str) -> Path:
    """Return the path of a program; build a missing one. Blocking: minutes from empty caches.

    A build that dies leaves nothing that would be taken for a program, and two builds at once do not
    disturb each other: the second one waits and finds what the first one made.
    """
    found = find(name)
    if found is not None:
        return found
    folder = cache_folder(PROGRAMS[name].module)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return find(name) or _build(name, folder)


def _build(name: str, folder: Path) -> Path:
    assert GO is not None, missing(name)
    source, unfinished = PROGRAMS[name], folder / f"{name}.new"
    minutes = _MINUTES.get(name, 0.7)
    about = f"about {minutes:g} minutes" if minutes > 1 else "about a minute"
    print(f"building {name} {version(source.module)}, {about} on two cores ...", flush=True)
    options = ("-trimpath", "-tags", source.tags, "-ldflags", source.ldflags)
    command = (GO, "build", *options, "-o", str(unfinished), source.package)
    environment = {**os.environ, "CGO_ENABLED": str(int(source.cgo))}
    subprocess.run(command, cwd=source_folder(source.module), env=environment, check=True)
    return unfinished.replace(folder / name)
