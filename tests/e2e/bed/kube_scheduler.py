"""kube-schedulers beside the one of the control plane: with the extender, or with other settings."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.e2e.bed.bed import Bed
from tests.e2e.bed.control_plane import answers, start_with_health
from tests.ports import reserve_port

_PYTHON: Final = (sys.executable, "-m", "dradriver.cli")

__all__ = ["start_extender", "start_kube_scheduler", "write_config"]


def start_extender(
    bed: Bed, *options: str, name: str = "dradriver-scheduler", kubeconfig: Path | None = None
) -> str:
    """Start `dradriver scheduler run` on the loopback interface, and wait until it is ready.

    Args:
        bed: the bed of its processes.
        options: more options of the command.
        name: the name of the process on the bed.
        kubeconfig: the account of the extender; None for the administrator.

    Returns:
        The address for `write_config`.
    """
    port = reserve_port()
    kubeconfig = kubeconfig or bed.credentials.write_kubeconfig(bed.url, "admin")
    bed.spawn(
        name, *_PYTHON, "scheduler", "run", f"--kubeconfig={kubeconfig}", f"--port={port}",
        "--lease-namespace=kube-system", *options,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    bed.wait(name, lambda: answers(f"{url}/readyz"))
    return url


def write_config(bed: Bed, url: str, *options: str, name: str = "with-extender") -> Path:
    """Write the configuration of a kube-scheduler with the extender, and return its path."""
    kubeconfig = bed.credentials.write_kubeconfig(bed.url, "scheduler")
    command = [*_PYTHON, "scheduler", "config", f"--url={url}", f"--kubeconfig={kubeconfig}"]
    command += ["--no-leader-elect", "--qps=5000", "--burst=5000", *options]
    text = subprocess.run(command, check=True, capture_output=True).stdout
    path = bed.folder / f"{name}.yaml"
    path.write_bytes(text)
    return path


def start_kube_scheduler(bed: Bed, config: Path, name: str, versioned: Sequence[str] = ()) -> None:
    """Start another kube-scheduler, and wait until it is ready.

    Args:
        bed: the bed of its processes.
        config: its configuration.
        name: the name of the process on the bed.
        versioned: options that all programs of the control plane get alike.
    """
    start_with_health(bed, "kube-scheduler", f"--config={config}", *versioned, name=name)
