"""containerd's configuration of one node: all its files are in the node's folder."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.bed.nodes import images
from tests.e2e.bed.programs import program


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of containerd below a node's folder.

    Attributes:
        node: the node's folder.
    """

    node: Path

    @property
    def data(self) -> Path:
        """Return the folder of images and containers, which survives a reboot."""
        return self.node / "containerd"

    @property
    def state(self) -> Path:
        """Return the folder of the running containers' state."""
        return self.node / "state"

    @property
    def network(self) -> Path:
        """Return the folder of the pod network's configuration."""
        return self.node / "network"

    @property
    def addresses(self) -> Path:
        """Return the folder that records the addresses of pods."""
        return self.node / "addresses"

    @property
    def shims(self) -> Path:
        """Return the folder of the sockets of containerd's shims."""
        return self.node / "shims"

    @property
    def cdi(self) -> Path:
        """Return the folder of CDI specs."""
        return self.node / "cdi"

    @property
    def socket(self) -> Path:
        """Return the socket that the kubelet connects to."""
        return self.state / "c.sock"

    @property
    def file(self) -> Path:
        """Return the path of the configuration file."""
        return self.node / "containerd.toml"

    @property
    def lost(self) -> tuple[Path, ...]:
        """Return the folders that a reboot empties."""
        return (self.state, self.addresses, self.shims, self.cdi)

    @property
    def all(self) -> tuple[Path, ...]:
        """Return all folders."""
        return (self.data, self.network, *self.lost)


def write_network(folders: Folders, pods: str) -> None:
    """Write the pod network's configuration: a pair of links and a route for each pod."""
    network = {
        "cniVersion": "1.0.0", "name": "bed",
        "plugins": [{
            "type": "ptp", "ipMasq": False,
            "ipam": {"type": "host-local", "dataDir": str(folders.addresses),
                     "ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}]},
        }],
    }  # fmt: skip
    (folders.network / "bed.conflist").write_text(json.dumps(network))


def config(folders: Folders) -> str:
    """Return the text of containerd's configuration file."""
    plugins = sorted({str(program(name).parent) for name in ("ptp", "host-local")})
    # The out-of-memory score can't be lowered where CAP_SYS_RESOURCE is missing.
    return f"""\
version = 3
root = "{folders.data}"
state = "{folders.state}"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.tracing"]
[grpc]
address = "{folders.socket}"
[ttrpc]
address = "{folders.socket}.ttrpc"
[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{images.PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
enable_cdi = true
cdi_spec_dirs = ["{folders.cdi}"]
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = {json.dumps(plugins)}
conf_dir = "{folders.network}"
use_internal_loopback = true
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{program("containerd-shim-runc-v2")}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{shutil.which("runc")}"
SystemdCgroup = false
"""
