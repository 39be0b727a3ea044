"""The command itself."""

import asyncio
import signal
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import click
from rich.text import Text

from dradriver.cli.demonstration.story import Story
from dradriver.cli.output import console
from dradriver.cli.supervisor import Supervisor
from dradriver.cli.up import RUNTIMES, driver_processes

__all__ = ["demo"]

_LOOP: Final = "loop"


@click.command()
@click.option("--keep", is_flag=True, help="Leave cluster and pods running for kubectl, until Ctrl-C.")
@click.option(
    "--runtime", type=click.Choice(RUNTIMES), help="What runs containers.  [default: the first that works here]"
)
def demo(keep: bool, runtime: str | None) -> None:
    """Show real devices of this machine all the way into a container.

    Starts an embedded cluster in a temporary folder, runs the driver of loop devices beside it, and creates
    two pods that each claim a device. Each line is printed after it happened. Exits with 1, and the reason,
    when something did not happen.
    """
    with tempfile.TemporaryDirectory(prefix="dradriver-demo-") as folder:
        try:
            asyncio.run(_demo(Path(folder), runtime, keep=keep))
        except asyncio.CancelledError:
            raise click.Abort from None


async def _demo(folder: Path, runtime: str | None, *, keep: bool) -> None:
    # The embedded cluster is slow to import.
    from dradriver.cluster import Cluster  # noqa: PLC0415
    from dradriver.cluster.runtime import choose_runtime  # noqa: PLC0415

    say = _Narrator()
    stop = asyncio.Event()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:
        # As Ctrl-C does: everything that was started is ended in order.
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    async with AsyncExitStack() as stack:
        chosen = await choose_runtime(runtime)
        cluster = await stack.enter_async_context(Cluster(folder, nodes=1, runtime=chosen))
        say("cluster", f"API server {cluster.url}, state in {folder}")
        say("runtime", cluster.runtime)
        if chosen.name == "process":
            say("", "for real containers: install podman or runc (apt install podman) and run this as root")
        client = cluster.client()
        (process,) = driver_processes(cluster, [_LOOP])
        await stack.enter_async_context(Supervisor([process], lambda line: click.echo(line, err=True)))
        story = Story(client, process, say)
        await story.node_is_there()
        await story.devices_are_published()
        await story.objects_are_created()
        await story.pods_run()
        if keep:
            loop.add_signal_handler(signal.SIGINT, stop.set)
            click.echo(f"\nKept for you:  export KUBECONFIG={cluster.kubeconfig_path}\nCtrl-C ends it.")
            await stop.wait()
        await story.pods_are_deleted()
        story.nothing_is_left()
        say("done", f"in {say.seconds():.1f} s; next: dradriver up --driver loop, and your own kubectl")


class _Narrator:
    """Prints lines with the time at which they happened."""

    def __init__(self) -> None:
        self._console = console()
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def __call__(self, heading: str, text: str) -> None:
        line = Text(f"{self.seconds():5.1f} s  ", style="dim")
        line.append(f"{heading:<10}", style="bold")
        line.append(text)
        self._console.print(line, soft_wrap=True)
