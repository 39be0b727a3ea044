"""The command `dradriver cel`."""

from collections.abc import Sequence

import click

from dradriver.allocator import Inventory
from dradriver.cel import CelError, CompileError, Selector
from dradriver.cel.evaluate import cost, steps
from dradriver.cli.cluster_access import Access, cluster_options, with_client
from dradriver.cli.files import file_options, read_sound_files
from dradriver.cli.selector.trial import Trial, pointed, try_on
from dradriver.cli.terminal.errors import FAILED
from dradriver.cli.terminal.output import document, output_option, table
from dradriver.cli.world import list_typed, read_world
from dradriver.errors import NotFoundError
from dradriver.kube import SLICES, Client
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["cel"]

_NAMED = 4


@click.command(short_help="Show which devices a CEL expression selects.")
@click.argument("expression")
@file_options(required=False)
@cluster_options
@output_option
@click.pass_context
def cel(
    ctx: click.Context,
    expression: str,
    files: Sequence[str],
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> None:
    """Show which devices the CEL EXPRESSION selects, or what is wrong with it, and where.

    Asks the cluster for its devices, or takes those of the ResourceSlices in files. Exits with 1 when the
    expression does not compile, or fails on a device: a claim with it would fail too.
    """
    try:
        selector = Selector(expression)
    except CompileError as error:
        _refused(error, output)
        ctx.exit(FAILED)
    slices = read_world(read_sound_files(files)).slices if files else _live(Access(kubeconfig, context))
    devices = [device for pool in Inventory.of(slices).published.values() for device in pool.devices()]
    if not devices:
        where = "in the files" if files else "on the cluster"
        raise NotFoundError(f"there is no device to try it on: no ResourceSlice {where} has any")
    trial = try_on(selector, devices)
    if output == "table":
        _say(trial)
    else:
        document(_document(expression, trial), output)
    if trial.failures:
        ctx.exit(FAILED)


def _live(access: Access) -> list[ResourceSlice]:
    async def ask(client: Client) -> list[ResourceSlice]:
        return await list_typed(client, SLICES, ResourceSlice)

    return with_client(access, ask)


def _refused(error: CompileError, output: str) -> None:
    if output == "table":
        click.echo("Error: the expression does not compile: " + "\n".join(pointed(error, error.hint)), err=True)
    else:
        document(_document(error.expression, Trial()) | {"error": _told(error, error.hint)}, output)


def _say(trial: Trial) -> None:
    rows = [[each.driver, each.pool, each.device] for each in trial.matches]
    table(("driver", "pool", "device"), rows, empty="No device matches.")
    for failure in trial.failures:
        names = ", ".join(map(str, failure.devices[:_NAMED]))
        more = f" and {len(failure.devices) - _NAMED} more" if len(failure.devices) > _NAMED else ""
        click.echo(f"It fails on {names}{more}: " + "\n".join(pointed(failure.error, failure.hint)), err=True)
    failed = sum(len(failure.devices) for failure in trial.failures)
    took = (
        f"; costs at most {trial.cost} of {cost.LIMIT}, takes at most {trial.steps} of {steps.LIMIT} steps"
        if trial.cost
        else ""
    )
    click.echo(f"{len(trial.matches)} of {trial.devices} devices match, {failed} fail{took}", err=True)


def _document(expression: str, trial: Trial) -> dict[str, object]:
    return {
        "apiVersion": "dradriver/v1",
        "kind": "SelectorTrial",
        "expression": expression,
        "matches": [_id(each) for each in trial.matches],
        "failures": [
            _told(failure.error, failure.hint) | {"devices": [_id(each) for each in failure.devices]}
            for failure in trial.failures
        ],
        "devices": trial.devices,
        "cost": trial.cost,
        "steps": trial.steps,
    }


def _id(device: DeviceId) -> dict[str, str]:
    return {"driver": device.driver, "pool": device.pool, "device": device.device}


def _told(error: CelError, hint: str | None) -> dict[str, object]:
    line, column = error.position or (None, None)
    return {"reason": error.reason, "line": line, "column": column, "hint": hint}
