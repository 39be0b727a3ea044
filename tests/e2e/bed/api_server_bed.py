"""A kube-apiserver that restarts with other options, with the same state and address."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.bed import control_plane, programs
from tests.e2e.bed.bed import Bed
from tests.e2e.bed.credentials import NODES

NODE: Final = NODES[0]
_DRA_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")


def serve_only(version: str) -> Mapping[str, str]:
    """Return options of a server that has resource.k8s.io in one version.

    The Node authorizer of Kubernetes 1.37 reads ResourceSlices in v1, and a server without is never ready.
    """
    served = ",".join(f"resource.k8s.io/{each}={str(each == version).lower()}" for each in _DRA_VERSIONS)
    nodes = {} if version == "v1" else {
        "--authorization-mode": "RBAC", "--enable-admission-plugins": "NamespaceLifecycle",
    }  # fmt: skip
    return {"--runtime-config": served, **nodes}


class ApiServerBed(Bed):
    """A bed with etcd and one kube-apiserver: `serve` starts or restarts it."""

    def __init__(self) -> None:
        super().__init__()
        self._options: Mapping[str, str] = {}
        self._port = ""
        self.etcd = ""

    def serve(
        self,
        options: Mapping[str, str] | None = None,
        gates: Mapping[str, bool] | None = None,
        *,
        emulated_version: str = "",
    ) -> None:
        """Start the server; end a running one first. Blocking.

        Args:
            options: command line options in place of the usual ones of that name.
            gates: feature gates that differ from the version's defaults.
            emulated_version: an older minor (`1.35`) to behave as.
        """
        self.end("kube-apiserver", signal.SIGKILL)  # SIGTERM would wait for all watches
        self.etcd = self.etcd or control_plane.start_etcd(self)
        self._options = options or {}
        control_plane.start_apiserver(self, self.etcd, gates, emulated_version=emulated_version)

    def run(self, name: str, *arguments: str) -> None:
        """Start a program; the API server with the options of this bed."""
        if name == "kube-apiserver":
            options = {each.partition("=")[0]: each.partition("=")[2] for each in arguments}
            self._port = self._port or options["--secure-port"]
            options |= {"--secure-port": self._port, **self._options}
            self.url = f"https://127.0.0.1:{self._port}"
            arguments = tuple(f"{name}={value}" for name, value in options.items())
        super().run(name, *arguments)

    def kubeconfig(self, user: str = "admin") -> str:
        """Return the path of the kubeconfig of one of `credentials.USERS`."""
        path: Path = self.credentials.write_kubeconfig(self.url, user)
        return str(path)


@contextmanager
def api_server_bed() -> Iterator[ApiServerBed]:
    """Return a bed; skip the test if the programs are missing."""
    if reason := programs.missing(*programs.CONTROL_PLANE):
        pytest.skip(reason)
    with ApiServerBed() as bed:
        yield bed
