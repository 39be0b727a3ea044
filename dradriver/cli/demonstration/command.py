"""The command `dradriver demo`."""

import asyncio
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click
from rich.text import Text

from dradriver.aio.bulk_load import collect_garbage_rarely
from dradriver.cli.demonstration.processes import driver_processes_of
from dradriver.cli.demonstration.shows import SHOWS, find_installed_shows
from dradriver.cli.demonstration.story import Story
from dradriver.cli.embedded_cluster import runtime_option, simulation_folder
from dradriver.cli.supervision import Supervisor
from dradriver.cli.terminal.output import console
from dradriver.runner import load_any

__all__ = ["demo"]


@click.command()
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    type=click.Choice(tuple(SHOWS)),
    help="Driver to show; can be repeated.  [default: all that are installed]",
)
@click.option("--keep", is_flag=True, help="Keep the cluster and its pods for kubectl until Ctrl-C.")
@runtime_option
def demo(drivers: tuple[str, ...], keep: bool, runtime: str | None) -> None:
    """Show devices from discovery to a container.

    Starts an embedded cluster in a temporary folder, runs drivers beside it, and creates two pods for each
    driver. Each pod claims a device: a loop device of this machine, a partition of a simulated GPU, or a region
    of a simulated FPGA, which is programmed while the pod waits, or memory behind a simulated CXL fabric, which
    is attached while the pod waits. A line is printed after its event. The exit code is 1, with a message, if
    an event does not happen in time.
    """
    shown = drivers or find_installed_shows()
    for name in shown:
        for entry in SHOWS[name].entries:
            load_any(entry)  # a driver that is not installed is reported before anything starts
    with tempfile.TemporaryDirectory(prefix="dradriver-demo-") as folder:
        try:
            collect_garbage_rarely()
            asyncio.run(_demo(Path(folder), shown, runtime, keep=keep))
        except asyncio.CancelledError:
            raise click.Abort from None


async def _demo(folder: Path, drivers: Sequence[str], runtime: str | None, *, keep: bool) -> None:
    # The embedded cluster is slow to import.
    from dradriver.cluster import EmbeddedCluster  # noqa: PLC0415
    from dradriver.cluster.runtime import choose_runtime  # noqa: PLC0415

    report = _Reporter()
    stop = asyncio.Event()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:
        # SIGTERM acts like Ctrl-C: all parts are stopped in order.
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    async with AsyncExitStack() as stack:
        chosen = await choose_runtime(runtime)
        nodes = max(SHOWS[driver].nodes for driver in drivers)
        cluster = await stack.enter_async_context(EmbeddedCluster(folder, nodes=nodes, runtime=chosen))
        report("cluster", f"API server {cluster.url}, state in {folder}")
        report("runtime", cluster.runtime)
        if chosen.name == "process":
            report("", "for real containers, install podman or runc (apt install podman) and run as root")
        client = cluster.client()
        processes = {driver: driver_processes_of(cluster, SHOWS[driver]) for driver in drivers}
        supervisor = Supervisor(
            [each for of_driver in processes.values() for each in of_driver],
            lambda message: click.echo(str(message), err=True),
        )
        await stack.enter_async_context(supervisor)
        stories = [
            Story(
                client,
                SHOWS[driver],
                [each for each in started if each.node],
                report,
                simulation_folder(cluster),
            )
            for driver, started in processes.items()
        ]
        await stories[0].wait_for_node()
        for story in stories:
            await story.wait_for_devices()
            await story.plug_card()
            await story.create_objects()
            await story.follow_pods()
            await story.draw_partitions()
        if keep:
            loop.add_signal_handler(signal.SIGINT, stop.set)
            click.echo(f"\nThe cluster runs:  export KUBECONFIG={cluster.kubeconfig_path}\nCtrl-C stops it.")
            await stop.wait()
        for story in stories:
            await story.pull_card()
            await story.delete_pods()
        for story in stories:
            story.check_nothing_left()
        again = " ".join(f"--driver {name}" for driver in drivers for name in SHOWS[driver].entries)
        options = f"--nodes {nodes} {again}" if nodes > 1 else again
        report("done", f"in {report.seconds():.1f} s; next: dradriver up {options}, and kubectl")


class _Reporter:
    """Prints lines. Each line begins with the seconds since the start."""

    def __init__(self) -> None:
        self._console = console()
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._began

    def __call__(self, heading: str, text: str) -> None:
        line = Text(f"{self.seconds():5.1f} s  ", style="dim")
        line.append(f"{heading:<10}", style="bold")
        line.append(text)
        self._console.print(line, soft_wrap=True)
