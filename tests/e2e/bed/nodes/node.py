"""A real node on a bed: containerd and kubelet, in their own mount namespace and control groups.

Several nodes run side by side: each has its own address, and its own /var/lib/kubelet, /run/cdi and so on. A
node's mounts, and network namespaces and links of its pods, end with its last process.
"""

import json
import shlex
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.bed import cgroups
from tests.e2e.bed.bed import Bed, BedError
from tests.e2e.bed.nodes import containerd, images, kubelet
from tests.e2e.bed.programs import program


class Node:
    """A node; it is ready when the constructor returns.

    Attributes:
        name: the Node object's name.
        address: the Node object's InternalIP.
        root: the kubelet's folder.
        registry, plugins: where drivers put their sockets.
        cdi: where drivers put their CDI specs.
    """

    def __init__(self, bed: Bed, index: int, gates: Mapping[str, bool]) -> None:
        self._bed, self.name, self.address = bed, f"node-{index}", bed.network.node(index)
        folder = bed.folder / self.name
        self._folders, self._log = containerd.Folders(folder), folder / "log"
        self.root, self.cdi = folder / "kubelet", self._folders.cdi
        self.registry, self.plugins = self.root / "plugins_registry", self.root / "plugins"
        self._config, self._group, self._pid = folder / "kubelet.json", f"{bed.changes.group}/{self.name}", 0
        for each in (*self._folders.all, self.registry, self.plugins, self._log / "pods"):
            each.mkdir(parents=True)
        bed.changes.prepare_for_nodes()
        bed.changes.add_address(self.address)
        containerd.write_network(self._folders, bed.network.pods(index))
        self._folders.file.write_text(containerd.config(self._folders))
        self._config.write_text(json.dumps(kubelet.config(
            address=self.address, group=f"/{self._group}/pods", logs=self._log / "pods",
            socket=self._folders.socket, ca_file=bed.credentials.ca_file, gates=gates,
        )))  # fmt: skip
        self._start_containerd()
        archive = folder / "busybox.tar"
        images.write_busybox(archive)
        self.import_image(archive)
        self.start()

    # --- containerd ---------------------------------------------------------------------------

    def _start_containerd(self) -> None:
        """Start containerd in its own namespaces, with this node's folders at the usual paths."""
        folders = self._folders
        places = {"/var/lib/kubelet": self.root, "/var/log": self._log, "/run/containerd": folders.shims,
                  "/var/lib/cni": folders.addresses, "/run/cdi": self.cdi, "/etc/cdi": self.cdi}  # fmt: skip
        cgroups.make(f"{self._group}/pods")
        script = [
            cgroups.join_command(f"{self._group}/system"),
            # Volumes with mount propagation need it; the namespace itself is private.
            "mount --make-rshared /",
            *(f"mount --bind {inside} {Path(place).resolve()}" for place, inside in places.items()),
            f"exec {program('containerd')} --config {folders.file}",
        ]
        self._pid = self._bed.spawn(
            f"{self.name}-containerd",
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            "\n".join(script),
        )
        self._bed.wait(f"{self.name}-containerd", self._containerd_answers)

    def _containerd_answers(self) -> bool:
        if not self._folders.socket.exists():
            return False
        return (
            subprocess.run(self._ctr("plugins", "ls", "id==cri"), check=False, capture_output=True).returncode
            == 0
        )

    def _ctr(self, *arguments: str) -> tuple[str, ...]:
        connection = ("--address", str(self._folders.socket), "--namespace", "k8s.io")
        return (str(program("ctr")), *connection, *arguments)

    def ctr(self, *arguments: str) -> str:
        """Run containerd's own client and return its output.

        Raises:
            BedError: it failed; the message has its output.
        """
        done = subprocess.run(self._ctr(*arguments), check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise BedError(f"ctr {shlex.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def import_image(self, archive: Path) -> None:
        """Import a tar in OCI or Docker format."""
        self.ctr("images", "import", "--local", str(archive))

    # --- the kubelet --------------------------------------------------------------------------

    def start(self) -> None:
        """Start the kubelet and wait until the node is ready."""
        credentials, namespace = self._bed.credentials, f"--mount=/proc/{self._pid}/ns/mnt"
        command = (
            str(program("kubelet")), f"--config={self._config}", "--root-dir=/var/lib/kubelet",
            f"--hostname-override={self.name}", f"--node-ip={self.address}", f"--cert-dir={self.root / 'pki'}",
            f"--kubeconfig={credentials.write_kubeconfig(self._bed.url, f'node:{self.name}')}", "--v=2",
        )  # fmt: skip
        script = [cgroups.join_command(f"{self._group}/system"), f"exec {shlex.join(command)}"]
        self._bed.spawn(f"{self.name}-kubelet", "nsenter", namespace, "sh", "-ec", "\n".join(script))
        self._bed.wait(f"{self.name}-kubelet", self._ready)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}:10248/healthz", timeout=2):
                pass
            conditions = self._bed.get(f"/api/v1/nodes/{self.name}")["status"]["conditions"]
        except (OSError, KeyError):
            return False
        return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)

    def stop(self) -> None:
        """Stop the kubelet; containers keep running."""
        self._bed.end(f"{self.name}-kubelet")

    def kill(self) -> None:
        """Kill the kubelet; containers keep running."""
        self._bed.end(f"{self.name}-kubelet", signal.SIGKILL)

    def reboot(self, *, start: bool = True) -> None:
        """Lose what a reboot loses: processes, mounts, and files in memory.

        Args:
            start: start the kubelet too; without, containerd alone is up.
        """
        for each in ("kubelet", "containerd"):
            self._bed.end(f"{self.name}-{each}", signal.SIGKILL)
        cgroups.kill(self._group)
        cgroups.remove(self._group)
        for folder in self._folders.lost:
            shutil.rmtree(folder)
            folder.mkdir()
        self._start_containerd()
        if start:
            self.start()

    def get(self) -> dict[str, Any]:
        """Return the Node object."""
        return self._bed.get(f"/api/v1/nodes/{self.name}")
