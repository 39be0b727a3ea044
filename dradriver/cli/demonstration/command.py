"""The command `dradriver demo`."""

import asyncio
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import click
from rich.text import Text

from dradriver.cli.demonstration.packages import installed_shows
from dradriver.cli.demonstration.shows import SHOWS
from dradriver.cli.demonstration.story import Story
from dradriver.cli.supervisor import Supervisor
from dradriver.cli.terminal.output import console
from dradriver.cli.up import RUNTIMES, driver_processes
from dradriver.runner import load_any

__all__ = ["demo"]


@click.command()
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    type=click.Choice(tuple(SHOWS)),
    help="Driver to show; may be repeated.  [default: those that are installed]",
)
@click.option("--keep", is_flag=True, help="Leave cluster and pods running for kubectl, until Ctrl-C.")
@click.option(
    "--runtime", type=click.Choice(RUNTIMES), help="What runs containers.  [default: the first that works here]"
)
def demo(drivers: tuple[str, ...], keep: bool, runtime: str | None) -> None:
    """Show devices all the way into a container.

    Starts an embedded cluster in a temporary folder, runs drivers beside it, and creates two pods for each that
    claim a device: real loop devices of this machine, partitions of simulated GPUs, and regions of simulated
    FPGAs, which are programmed while the pods wait. Each line is printed after it happened. Exits with 1, and
    the reason, when something did not happen.
    """
    shown = drivers or installed_shows()
    for name in shown:
        load_any(name)  # a driver that is not installed is reported before anything starts
    with tempfile.TemporaryDirectory(prefix="dradriver-demo-") as folder:
        try:
            asyncio.run(_demo(Path(folder), shown, runtime, keep=keep))
        except asyncio.CancelledError:
            raise click.Abort from None


async def _demo(folder: Path, drivers: Sequence[str], runtime: str | None, *, keep: bool) -> None:
    # The embedded cluster is slow to import.
    from dradriver.cluster import EmbeddedCluster  # noqa: PLC0415
    from dradriver.cluster.runtime import choose_runtime  # noqa: PLC0415

    say = _Narrator()
    stop = asyncio.Event()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:
        # SIGTERM acts like Ctrl-C: everything that was started is ended in order.
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    async with AsyncExitStack() as stack:
        chosen = await choose_runtime(runtime)
        cluster = await stack.enter_async_context(EmbeddedCluster(folder, nodes=1, runtime=chosen))
        say("cluster", f"API server {cluster.url}, state in {folder}")
        say("runtime", cluster.runtime)
        if chosen.name == "process":
            say("", "for real containers: install podman or runc (apt install podman) and run this as root")
        client = cluster.client()
        processes = [
            replace(process, simulate=SHOWS[process.driver].simulate)
            for process in driver_processes(cluster, drivers)
        ]
        await stack.enter_async_context(Supervisor(processes, lambda line: click.echo(line, err=True)))
        stories = [Story(client, SHOWS[process.driver], process, say) for process in processes]
        await stories[0].node_is_there()
        for story in stories:
            await story.devices_are_published()
            await story.a_card_appears()
            await story.objects_are_created()
            await story.pods_run()
            await story.partitions_are_drawn()
        if keep:
            loop.add_signal_handler(signal.SIGINT, stop.set)
            click.echo(f"\nKept for you:  export KUBECONFIG={cluster.kubeconfig_path}\nCtrl-C ends it.")
            await stop.wait()
        for story in stories:
            await story.the_card_is_pulled()
            await story.pods_are_deleted()
        for story in stories:
            story.nothing_is_left()
        again = " ".join(f"--driver {driver}" for driver in drivers)
        say("done", f"in {say.seconds():.1f} s; next: dradriver up {again}, and your own kubectl")


class _Narrator:
    """Prints lines with the time of their events."""

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
