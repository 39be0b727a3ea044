"""Describes a cluster that has started: addresses, files, drivers, and commands to copy."""

import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from dradriver.cli.supervision import DriverProcess
from dradriver.cli.up.settings import UpSettings
from dradriver.errors import DraError, UsageError
from dradriver.kube import CLAIMS
from dradriver.model.resource.claim import ResourceClaim
from dradriver.runner import driver_names, load_any

if TYPE_CHECKING:
    from dradriver.cluster import EmbeddedCluster

__all__ = ["copy_kubeconfig", "describe_missing_drivers", "find_missing_drivers", "list_summary"]


def list_summary(
    cluster: "EmbeddedCluster", settings: UpSettings, processes: Sequence[DriverProcess]
) -> Iterator[str]:
    """Yield the lines that describe the running cluster.

    Args:
        cluster: the cluster.
        settings: values of the options.
        processes: the processes of the drivers.
    """
    yield f"API server  {cluster.url}"
    yield f"Data        {settings.data}"
    yield f"Nodes       {', '.join(cluster.nodes)}"
    yield f"Containers  {cluster.runtime.removeprefix('containers are ')}"
    for process in processes:
        yield f"Driver      {process.driver} {process.where}, log {process.log}"
    if settings.metrics_port:
        yield f"Metrics     http://127.0.0.1:{settings.metrics_port}/metrics"
    if not processes:
        yield "Driver      none; --driver loop publishes this machine's loop devices"
    if any(process.node for process in processes) and len(cluster.nodes) > 1:
        yield "            all nodes are this machine, so a driver publishes the same devices on each"
    if settings.reload and settings.drivers:
        yield "Reload      a driver is restarted when its Python files change"
    yield ""
    yield "In another terminal:"
    # The other terminal may be in another folder, so paths are absolute.
    kubeconfig = (settings.kubeconfig or cluster.kubeconfig_path).absolute()
    yield f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}"
    yield "  kubectl get nodes,resourceslices"
    yield from (f"  {line}" for line in list_apply_commands(settings.drivers))
    if processes:
        folder = f" --data {shlex.quote(str(settings.data.absolute()))}" if settings.has_own_folder else ""
        yield f"  {_command()} up logs {processes[0].driver} -f{folder}"
    yield ""
    yield "For laptops and tests, not for production. Press Ctrl-C to stop."


def list_apply_commands(drivers: Iterable[str]) -> Iterator[str]:
    """Yield a command for each driver that creates the objects to try the driver.

    Drivers of one package have common manifests, so only the first of them gets a command.

    Args:
        drivers: names of drivers.
    """
    seen: set[str] = set()
    for driver in drivers:
        package = load_any(driver).__module__.partition(".")[0]
        if package not in seen:
            seen.add(package)
            yield f"{_command()} manifests {driver} | kubectl apply -f -"


def _command() -> str:
    """Return how this program is called in another terminal."""
    name = Path(sys.argv[0]).name
    if name == "__main__.py":
        return f"{sys.executable} -m dradriver.cli"
    found = shutil.which("dradriver")
    return "dradriver" if found and Path(found).resolve() == Path(sys.argv[0]).resolve() else sys.argv[0]


async def find_missing_drivers(cluster: "EmbeddedCluster", drivers: Sequence[str]) -> list[str]:
    """Return a warning for each driver that allocated claims need but that is not running.

    Args:
        cluster: the running cluster.
        drivers: entry points of the running drivers.
    """
    claims = (await cluster.client().list(CLAIMS, into=ResourceClaim)).items
    return describe_missing_drivers({result.driver for claim in claims for result in claim.results}, drivers)


def describe_missing_drivers(used: Iterable[str], drivers: Sequence[str]) -> list[str]:
    """Return a message for each driver that claims use but that is not running.

    Args:
        used: names of drivers in the cluster, such as `loop.example.com`.
        drivers: entry points of the running drivers, such as `loop`.
    """
    running = {load_any(name).name for name in drivers}
    missing = sorted(set(used) - running)
    installed = {driver: name for name in driver_names() if (driver := _driver_of(name))} if missing else {}
    return [
        f"warning: claims have devices of driver {driver}, which does not run: "
        + (f"add --driver {installed[driver]}" if driver in installed else "it is not installed")
        for driver in missing
    ]


def _driver_of(name: str) -> str:
    try:
        return load_any(name).name
    except DraError:
        return ""  # the driver is broken, but the user did not request it


def copy_kubeconfig(source: Path, target: Path) -> None:
    """Write the kubeconfig, but never overwrite the kubeconfig of another cluster.

    Args:
        source: kubeconfig of the cluster.
        target: the new file.

    Raises:
        UsageError: `target` is another cluster's kubeconfig.
    """
    text = source.read_text()
    if target.exists() and _context(target) != _context(source):
        raise UsageError(
            f"--kubeconfig: {target} exists and is not a kubeconfig of this cluster; choose another file"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch(mode=0o600)
    target.write_text(text)


def _context(kubeconfig: Path) -> object:
    try:
        content = yaml.safe_load(kubeconfig.read_text(errors="replace"))
    except yaml.YAMLError:
        return None
    return content.get("current-context") if isinstance(content, dict) else None
