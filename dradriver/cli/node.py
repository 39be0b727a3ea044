"""`dradriver node`: what a node itself knows, without a cluster."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from dradriver.cli.output import age, document, output_option, table
from dradriver.errors import DraError, NotFoundError
from dradriver.model.codec import rfc3339

__all__ = ["node"]

COLUMNS = ("driver", "claim", "uid", "state", "devices", "since", "cdi spec")
INSTANCE_COLUMNS = ("driver", "socket", "state", "since", "problem")
POOL_COLUMNS = ("driver", "pool", "state", "generation", "slices", "devices", "since", "problem")


@click.group()
def node() -> None:
    """Look at one node from within."""


@node.command(short_help="Show prepared claims with their devices and CDI specs.")
@click.option(
    "--plugins-dir",
    envvar="DRADRIVER_PLUGINS_DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/var/lib/kubelet/plugins"),
    show_default=True,
    help="The kubelet's folder of plugins.",
)
@click.option(
    "--cdi-dir",
    envvar="DRADRIVER_CDI_DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/var/run/cdi"),
    show_default=True,
    help="The folder of CDI specs.",
)
@click.option("--driver", help="Only claims of the driver of this name (loop.example.com).")
@output_option
def status(plugins_dir: Path, cdi_dir: Path, driver: str | None, output: str) -> None:
    """Show the claims that are prepared on this node, its pools, and whether its drivers are ready.

    Reads the state files of dradriver's drivers; they may be running or not. Needs the rights to read them.
    """
    data_dirs = _data_dirs(plugins_dir, driver)
    rows = [row for data_dir in data_dirs for row in _claims(data_dir, cdi_dir)]
    pools = [row for data_dir in data_dirs for row in _pools(data_dir)]
    instances = [row for data_dir in data_dirs for row in _instances(data_dir)]
    if output != "table":
        head = {"apiVersion": "dradriver/v1", "kind": "NodeStatus"}
        document({**head, "items": rows, "pools": pools, "instances": instances}, output)
        return
    now = datetime.now(UTC)
    _show_claims(rows, now)
    if pools:
        click.echo()
        _show(POOL_COLUMNS, pools, now)
    if instances:
        click.echo()
        _show(INSTANCE_COLUMNS, instances, now)


def _show_claims(rows: Iterable[Mapping[str, object]], now: datetime) -> None:
    shown = (
        [
            str(row["driver"]),
            f"{row['namespace']}/{row['name']}",
            str(row["uid"]),
            str(row["state"]),
            ",".join(str(each) for each in _devices(row)),
            age(datetime.fromisoformat(str(row["since"])), now),
            "present" if row["cdiSpec"] else "absent",
        ]
        for row in rows
    )
    table(COLUMNS, shown, empty="No claims are prepared here.")


def _devices(row: Mapping[str, object]) -> list[object]:
    devices = row["devices"]
    return devices if isinstance(devices, list) else []


def _show(columns: Sequence[str], rows: Iterable[Mapping[str, object]], now: datetime) -> None:
    """A table whose last columns are `since` and `problem`."""
    shown = (
        [
            *(str(row[column]) for column in columns[:-2]),
            age(datetime.fromisoformat(str(row["since"])), now),
            str(row["problem"] or "-"),
        ]
        for row in rows
    )
    table(columns, shown, empty="")


def _data_dirs(plugins_dir: Path, driver: str | None) -> list[Path]:
    # The node side is slow to import (gRPC).
    from dradriver.node.state_file import FILE_NAME  # noqa: PLC0415

    found = sorted(path.parent for path in plugins_dir.glob(f"{driver or '*'}/{FILE_NAME}"))
    if not found:
        wanted = f"of driver {driver} " if driver else ""
        raise NotFoundError(
            f"no prepared state {wanted}in {plugins_dir}: no driver has run with this --plugins-dir, "
            "or you may not read it"
        )
    return found


def _claims(data_dir: Path, cdi_dir: Path) -> Iterator[dict[str, object]]:
    from dradriver.node import node_status  # noqa: PLC0415
    from dradriver.node.cdi import CdiNames  # noqa: PLC0415

    state = node_status(data_dir)
    for path in state.set_aside:
        click.echo(f"Warning: {path} could not be read and was set aside; the state was rebuilt", err=True)
    names = CdiNames(data_dir.name)
    for row in state.claims:
        record = row.record
        yield {
            "driver": data_dir.name,
            "namespace": record.namespace,
            "name": record.name,
            "uid": record.uid,
            "state": str(row.state),
            "devices": [f"{each.pool}/{each.device}" for each in record.devices],
            "since": rfc3339(datetime.fromtimestamp(row.since, UTC)),
            "cdiSpec": _spec(cdi_dir / names.file(record.uid)),
        }


def _pools(data_dir: Path) -> Iterator[dict[str, object]]:
    from dradriver.node.pool_file import read_pools  # noqa: PLC0415

    try:
        known = read_pools(data_dir)
    except DraError as error:  # claims are shown all the same
        click.echo(f"Warning: {error}", err=True)
        return
    for each in known:
        pool = each.status
        yield {
            "driver": data_dir.name,
            "pool": pool.pool,
            "state": str(pool.state),
            "generation": pool.generation,
            "slices": pool.slices,
            "devices": pool.devices,
            "since": rfc3339(datetime.fromtimestamp(each.since, UTC)),
            "problem": pool.message + (f" (held by {', '.join(pool.held_by)})" if pool.held_by else ""),
            "dropped": [str(field) for field in sorted(pool.dropped)],
            "heldBy": list(pool.held_by),
        }


def _instances(data_dir: Path) -> Iterator[dict[str, object]]:
    from dradriver.node.instance_file import read_instances  # noqa: PLC0415

    try:
        found = read_instances(data_dir)
    except DraError as error:
        click.echo(f"Warning: {error}", err=True)
        return
    for each in found:
        runs = each.runs
        yield {
            "driver": data_dir.name,
            "socket": each.service,
            "state": "gone" if not runs else "not ready" if each.missing else "ready",
            "since": rfc3339(datetime.fromtimestamp(each.since, UTC)),
            "problem": each.missing if runs else "no process serves its socket",
        }


def _spec(path: Path) -> str | None:
    return str(path) if path.exists() else None
