"""Builds the OCI configuration of a container that sees the host's files."""

from typing import Any, Final

from dradriver.cluster.runtime.base import PAUSE, ContainerSpec

__all__ = ["build_oci_config"]

_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CAPABILITIES: Final = [
    f"CAP_{name}"
    for name in (
        "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP",
        "SETUID", "SYS_CHROOT",
    )
]  # fmt: skip
"""The capabilities that container engines grant by default."""


def build_oci_config(spec: ContainerSpec) -> dict[str, Any]:
    """Return the configuration without CDI edits: own namespaces, no network, only the standard devices."""
    env = [f"{name}={value}" for name, value in spec.env.items()]
    if "PATH" not in spec.env:
        env.insert(0, _PATH)
    return {
        "ociVersion": "1.0.2",
        "hostname": spec.hostname,
        "root": {"path": "rootfs"},
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": list(spec.argv or PAUSE),
            "env": env,
            "cwd": spec.working_dir or "/",
            "noNewPrivileges": True,
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), _CAPABILITIES),
        },
        "mounts": [
            _build_mount("/proc", "proc"),
            _build_mount("/dev", "tmpfs", "nosuid", "mode=755", "size=65536k"),
            _build_mount("/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
            _build_mount("/dev/shm", "tmpfs", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k"),  # noqa: S108
            _build_mount("/sys", "sysfs", "nosuid", "noexec", "nodev", "ro"),
        ],
        "linux": {
            # The folder is directly below the root, so that no empty parent folder remains.
            "cgroupsPath": f"/dradriver-{spec.id}",
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
            "devices": [],
            "resources": {"devices": [{"allow": False, "access": "rwm"}]},
        },
    }


def _build_mount(destination: str, kind: str, *options: str) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": kind, "options": list(options)}
