"""The command `dradriver cel`."""

from collections.abc import Sequence

import click

from dradriver.allocator import Inventory
from dradriver.cel import CelError, CompileError, Selector
from dradriver.cel.evaluate import cost, steps
from dradriver.cli.cluster_access import Access, cluster_options, with_client
from dradriver.cli.files import file_options, read_valid_files
from dradriver.cli.selector.trial import Trial, evaluate_on, point_at_error
from dradriver.cli.terminal.errors import FAILED
from dradriver.cli.terminal.output import document, output_option, table
from dradriver.cli.world import list_typed, read_world
from dradriver.errors import NotFoundError
from dradriver.kube import SLICES, Client
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["cel"]

_MAX_NAMES = 4


@click.command(short_help="Show which devices a CEL expression selects.")
@click.argument("expression")
@file_options(required=False)
@cluster_options
@output_option
@click.pass_context
def cel(ctx: click.Context, expression: str, files: Sequence[str], access: Access, output: str) -> None:
    """Show which devices the CEL EXPRESSION selects, or its errors with their position.

    The devices are those of the cluster, or of the ResourceSlices in files. The exit code is 1 if the
    expression does not compile, or if its evaluation fails on a device. A claim with this expression would fail
    too.
    """
    try:
        selector = Selector(expression)
    except CompileError as error:
        _print_compile_error(error, output)
        ctx.exit(FAILED)
    slices = read_world(read_valid_files(files)).slices if files else _list_slices(access)
    devices = [device for pool in Inventory.of(slices).published.values() for device in pool.devices()]
    if not devices:
        where = "in the files" if files else "of the cluster"
        raise NotFoundError(f"no devices: the ResourceSlices {where} have none")
    trial = evaluate_on(selector, devices)
    if output == "table":
        _print_trial(trial)
    else:
        document(_document(expression, trial), output)
    if trial.failures:
        ctx.exit(FAILED)


def _list_slices(access: Access) -> list[ResourceSlice]:
    async def read(client: Client) -> list[ResourceSlice]:
        return await list_typed(client, SLICES, ResourceSlice)

    return with_client(access, read)


def _print_compile_error(error: CompileError, output: str) -> None:
    if output == "table":
        click.echo(
            "Error: the expression does not compile: " + "\n".join(point_at_error(error, error.hint)), err=True
        )
    else:
        document(_document(error.expression, Trial()) | {"error": _error_document(error, error.hint)}, output)


def _print_trial(trial: Trial) -> None:
    rows = [[each.driver, each.pool, each.device] for each in trial.matches]
    table(("driver", "pool", "device"), rows, empty="No device matches.")
    for failure in trial.failures:
        names = ", ".join(map(str, failure.devices[:_MAX_NAMES]))
        more = f" and {len(failure.devices) - _MAX_NAMES} more" if len(failure.devices) > _MAX_NAMES else ""
        click.echo(
            f"Evaluation fails on {names}{more}: " + "\n".join(point_at_error(failure.error, failure.hint)),
            err=True,
        )
    failed = sum(len(failure.devices) for failure in trial.failures)
    took = (
        f"; highest cost {trial.cost} of {cost.LIMIT}, most steps {trial.steps} of {steps.LIMIT}"
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
            _error_document(failure.error, failure.hint) | {"devices": [_id(each) for each in failure.devices]}
            for failure in trial.failures
        ],
        "devices": trial.devices,
        "cost": trial.cost,
        "steps": trial.steps,
    }


def _id(device: DeviceId) -> dict[str, str]:
    return {"driver": device.driver, "pool": device.pool, "device": device.device}


def _error_document(error: CelError, hint: str | None) -> dict[str, object]:
    line, column = error.position or (None, None)
    return {"reason": error.reason, "line": line, "column": column, "hint": hint}
