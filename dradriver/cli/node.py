"""`dradriver node`: the state of a node, read from its files."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dradriver.cli.node_folders import NodeFolders, default_data_folder, embedded_node_folders, kubelet_folders
from dradriver.cli.terminal.output import age, document, output_option, table
from dradriver.errors import DraError, NotFoundError, UsageError
from dradriver.model.encoding.codec import rfc3339

if TYPE_CHECKING:
    from dradriver.node.state.records import RecordedAnswer

__all__ = ["node"]

COLUMNS = ("driver", "claim", "uid", "state", "devices", "since", "cdi spec")
INSTANCE_COLUMNS = ("driver", "socket", "state", "since", "problem")
POOL_COLUMNS = ("driver", "pool", "state", "generation", "slices", "devices", "since", "problem")


@click.group()
def node() -> None:
    """Show the state of one node."""


@node.command(short_help="Show prepared claims, pools and driver instances.")
@click.option(
    "--plugins-dir",
    envvar="DRADRIVER_PLUGINS_DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Show only this folder of plugins.  [$DRADRIVER_PLUGINS_DIR; default: /var/lib/kubelet/plugins, "
    "and those of `dradriver up`]",
)
@click.option(
    "--cdi-dir",
    envvar="DRADRIVER_CDI_DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the CDI specs.  [$DRADRIVER_CDI_DIR; default: /var/run/cdi, or the folder cdi beside "
    "--plugins-dir]",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Show only the nodes of the cluster in this data folder of `dradriver up`.",
)
@click.option("--driver", help="Show only this driver, such as loop.example.com.  [default: all]")
@output_option
def status(
    plugins_dir: Path | None, cdi_dir: Path | None, data: Path | None, driver: str | None, output: str
) -> None:
    """Show the prepared claims and pools of this node, and whether its drivers are ready.

    Reads the state files of drivers beside this machine's kubelet and on the nodes of `dradriver up`. The
    drivers do not need to run. The command needs the permission to read the files.
    """
    nodes = _find_state(_select_nodes(plugins_dir, cdi_dir, data), driver)
    if output != "table":
        head = {"apiVersion": "dradriver/v1", "kind": "NodeStatus"}
        tables = [_rows(folders, data_dirs) for folders, data_dirs in nodes]
        sections = {name: [row for each in tables for row in each[name]] for name in _SECTIONS}
        document({**head, **sections}, output)
        return
    now = datetime.now(UTC)
    named = len(nodes) > 1 or nodes[0][0].cluster is not None
    for number, (folders, data_dirs) in enumerate(nodes):
        if named:
            click.echo(("\n" if number else "") + f"{folders.title}:")
        _show_node(_rows(folders, data_dirs), now)


_SECTIONS = ("items", "pools", "instances")


def _select_nodes(plugins_dir: Path | None, cdi_dir: Path | None, data: Path | None) -> Sequence[NodeFolders]:
    if data is not None:
        if plugins_dir is not None:
            raise UsageError("--data and --plugins-dir exclude each other")
        return list(embedded_node_folders(data))
    own = kubelet_folders(plugins_dir, cdi_dir)
    return [own] if plugins_dir is not None else [own, *embedded_node_folders(default_data_folder())]


def _find_state(selected: Sequence[NodeFolders], driver: str | None) -> list[tuple[NodeFolders, list[Path]]]:
    """Return the folders that contain state, each with the drivers' data directories.

    Raises:
        NotFoundError: no folder contains state.
    """
    # `dradriver.node` is slow to import (gRPC).
    from dradriver.node.state.database import FILE_NAME  # noqa: PLC0415

    data_dirs_by_node = [
        (folders, sorted(path.parent for path in folders.plugins.glob(f"{driver or '*'}/{FILE_NAME}")))
        for folders in selected
    ]
    nodes = [(folders, paths) for folders, paths in data_dirs_by_node if paths]
    if not nodes:
        of_driver = f" of driver {driver}" if driver else ""
        where = ", ".join(str(each.plugins) for each in selected) or "the data folder, which has no nodes"
        raise NotFoundError(
            f"no prepared state{of_driver} in {where}: no driver has run there, or the files are not readable; "
            "choose another folder with --plugins-dir or --data"
        )
    return nodes


def _rows(folders: NodeFolders, data_dirs: Sequence[Path]) -> Mapping[str, list[dict[str, object]]]:
    owner = {"cluster": str(folders.cluster) if folders.cluster else None, "node": folders.node or None}
    return {
        "items": [row | owner for data_dir in data_dirs for row in _claims(data_dir, folders.cdi)],
        "pools": [row | owner for data_dir in data_dirs for row in _pools(data_dir)],
        "instances": [row | owner for data_dir in data_dirs for row in _instances(data_dir)],
    }


def _show_node(rows: Mapping[str, list[dict[str, object]]], now: datetime) -> None:
    _show_claims(rows["items"], now)
    if rows["pools"]:
        click.echo()
        _show(POOL_COLUMNS, rows["pools"], now)
    if rows["instances"]:
        click.echo()
        _show(INSTANCE_COLUMNS, rows["instances"], now)


def _show_claims(rows: Iterable[Mapping[str, object]], now: datetime) -> None:
    shown = (
        [
            str(row["driver"]),
            f"{row['namespace']}/{row['name']}",
            str(row["uid"]),
            str(row["state"]),
            ",".join(str(each) for each in _device_names(row)),
            age(datetime.fromisoformat(str(row["since"])), now),
            str(row["cdiSpecState"]),
        ]
        for row in rows
    )
    table(COLUMNS, shown, empty="No claims are prepared on this node.")


def _device_names(row: Mapping[str, object]) -> list[object]:
    devices = row["devices"]
    return devices if isinstance(devices, list) else []


def _show(columns: Sequence[str], rows: Iterable[Mapping[str, object]], now: datetime) -> None:
    """Print a table whose last columns are `since` and `problem`."""
    shown = (
        [
            *(str(row[column]) for column in columns[:-2]),
            age(datetime.fromisoformat(str(row["since"])), now),
            str(row["problem"] or "-"),
        ]
        for row in rows
    )
    table(columns, shown, empty="")


def _claims(data_dir: Path, cdi_dir: Path | None) -> Iterator[dict[str, object]]:
    from dradriver.node import node_status  # noqa: PLC0415
    from dradriver.node.files.cdi import CdiNames  # noqa: PLC0415

    state = node_status(data_dir)
    for path in state.set_aside:
        click.echo(f"Warning: the damaged state file {path} was set aside, and the state was rebuilt", err=True)
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
            **_cdi_spec(cdi_dir, names.file(record.uid), is_needed=any(map(_has_edits, record.answers))),
        }


def _pools(data_dir: Path) -> Iterator[dict[str, object]]:
    from dradriver.node.reporting.pool_file import read_pools  # noqa: PLC0415

    try:
        pools = read_pools(data_dir)
    except DraError as error:  # the other tables do not depend on this file
        click.echo(f"Warning: {error}", err=True)
        return
    for each in pools:
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
    from dradriver.node.reporting.instance_file import read_instances  # noqa: PLC0415

    try:
        instances = read_instances(data_dir)
    except DraError as error:
        click.echo(f"Warning: {error}", err=True)
        return
    for each in instances:
        runs = each.runs
        yield {
            "driver": data_dir.name,
            "socket": each.service,
            "state": "gone" if not runs else "not ready" if each.missing else "ready",
            "since": rfc3339(datetime.fromtimestamp(each.since, UTC)),
            "problem": each.missing if runs else "no process serves the socket",
        }


def _has_edits(answer: "RecordedAnswer") -> bool:
    """Return whether the driver's answer contains edits for a container."""
    return answer.edits != type(answer.edits)()


def _cdi_spec(cdi_dir: Path | None, name: str, *, is_needed: bool) -> dict[str, object]:
    """Return the path and the state of a claim's CDI spec."""
    if cdi_dir is None or not _is_visible(cdi_dir):
        return {"cdiSpec": None, "cdiSpecState": "not looked at"}
    path = cdi_dir / name
    if path.exists():
        return {"cdiSpec": str(path), "cdiSpecState": "present"}
    return {"cdiSpec": None, "cdiSpecState": "absent" if is_needed else "not needed"}


def _is_visible(folder: Path) -> bool:
    """Return whether this process can see the content of a folder, or can see that it does not exist."""
    return os.access(folder, os.X_OK) or (not folder.exists() and os.access(folder.parent, os.X_OK))
