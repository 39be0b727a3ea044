"""`dradriver node`: what a node itself knows, without a cluster."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import click

from dradriver.cli.output import age, document, output_option, table
from dradriver.errors import NotFoundError
from dradriver.model.codec import rfc3339

__all__ = ["node"]

COLUMNS = ("driver", "claim", "uid", "state", "devices", "since", "cdi spec")


@click.group()
def node() -> None:
    """Look at one node from within."""


@node.command()
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
    """Show the claims that are prepared on this node, with their devices and CDI specs.

    Reads the state files of dradriver's drivers; they may be running or not. Needs the rights to read them.
    """
    rows = list(_rows(plugins_dir, cdi_dir, driver))
    if output != "table":
        document({"apiVersion": "dradriver/v1", "kind": "NodeStatus", "items": rows}, output)
        return
    now = datetime.now(UTC)
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


def _rows(plugins_dir: Path, cdi_dir: Path, driver: str | None) -> Iterator[dict[str, object]]:
    # The node side is slow to import (gRPC).
    from dradriver.node import node_status  # noqa: PLC0415
    from dradriver.node.cdi import CdiNames  # noqa: PLC0415
    from dradriver.node.state_file import FILE_NAME  # noqa: PLC0415

    found = sorted(path.parent for path in plugins_dir.glob(f"{driver or '*'}/{FILE_NAME}"))
    if not found:
        wanted = f"of driver {driver} " if driver else ""
        raise NotFoundError(
            f"no prepared state {wanted}in {plugins_dir}: no driver has run with this --plugins-dir, "
            "or you may not read it"
        )
    for data_dir in found:
        name = data_dir.name
        state = node_status(data_dir)
        for path in state.set_aside:
            click.echo(f"Warning: {path} could not be read and was set aside; the state was rebuilt", err=True)
        names = CdiNames(name)
        for row in state.claims:
            record = row.record
            yield {
                "driver": name,
                "namespace": record.namespace,
                "name": record.name,
                "uid": record.uid,
                "state": str(row.state),
                "devices": [f"{each.pool}/{each.device}" for each in record.devices],
                "since": rfc3339(datetime.fromtimestamp(row.since, UTC)),
                "cdiSpec": _spec(cdi_dir / names.file(record.uid)),
            }


def _spec(path: Path) -> str | None:
    return str(path) if path.exists() else None
