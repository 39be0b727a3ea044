"""The command `dradriver top`."""

import shutil
import sys
from typing import Final

import click

from dradriver.cli.cluster_access import Access, cluster_options, with_client
from dradriver.cli.top.items import SORTS, ItemFilter, ItemIndex, ItemKey, Sort
from dradriver.cli.top.layout import draw_everything
from dradriver.cli.top.screen import LiveScreen, take_picture
from dradriver.cli.top.spans import plain_text
from dradriver.cli.top.state import ScreenState
from dradriver.cli.top.terminal import Terminal
from dradriver.errors import UsageError
from dradriver.kube import Client
from dradriver.monitor import LiveOverview

__all__ = ["top"]

_PIPE_WIDTH: Final = 120
"""Width of a picture that is not printed to a terminal, if $COLUMNS is not set."""


@click.command()
@click.argument("name", required=False, default="")
@click.option(
    "--sort", type=click.Choice(list(SORTS)), default="name", show_default=True, help="Order of the rows."
)
@click.option("--filter", "text", default="", help="Words that a row must contain.")
@click.option("--driver", default="", help="Only rows with devices of this driver.")
@click.option("--problems", is_flag=True, help="Only rows with problems.")
@click.option("--free", is_flag=True, help="Only rows with devices that claims can still get.")
@click.option("--once", is_flag=True, help="Print one picture as text, and exit.")
@cluster_options
def top(
    name: str,
    sort: Sort,
    text: str,
    driver: str,
    problems: bool,
    free: bool,
    once: bool,
    access: Access,
) -> None:
    """Show devices, and what waits, in a live screen.

    NAME is a node, or a pool of several nodes as DRIVER/POOL, to show in detail. Press ? for the keys.
    """
    state = ScreenState(filter=ItemFilter(sort, text, driver, problems, free))
    terminal = None if once else Terminal()
    if terminal is not None:
        click.echo("Reading the cluster ...", err=True)

    async def show(client: Client) -> int:
        async with LiveOverview(client) as live:
            chosen = _choose(live, state, name)
            if terminal is None:
                _print_once(live, chosen)
                return 0
            with terminal:
                ended_by = await LiveScreen(live, terminal, chosen).run()
            return 0 if ended_by is None else 128 + ended_by

    if code := with_client(access, show):
        sys.exit(code)


def _choose(live: LiveOverview, state: ScreenState, name: str) -> ScreenState:
    """Return the state with the named node or pool in detail."""
    if not name:
        return state
    overview = live.tracker.overview
    if name in overview.nodes:
        key = ItemKey("node", name)
    elif any(name == f"{reach.driver}/{reach.pool}" for reach in overview.reaches):
        key = ItemKey("reach", name)
    else:
        raise UsageError(f"no node and no pool of several nodes has the name {name!r}: dradriver top --once")
    return ScreenState("detail", state.filter, selected=key)


def _print_once(live: LiveOverview, state: ScreenState) -> None:
    index = ItemIndex()
    index.apply(live.tracker.overview)
    width = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns
    for line in draw_everything(take_picture(live, index), state, width):
        click.echo(plain_text(line))
