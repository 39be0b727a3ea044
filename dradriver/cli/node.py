"""`dradriver node`: the state of a node, without a cluster."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dradriver.cli.node_folders import NodeFolders, default_data, folders_of_up, kubelets_folders
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
    """Look at one node from within."""


@node.command(short_help="Show prepared claims with their devices and CDI specs.")
@click.option(
    "--plugins-dir",
    envvar="DRADRIVER_PLUGINS_DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Look at this folder of plugins only.  [default: the kubelet's, and those of `dradriver up`]",
)
@click.option(
    "--cdi-dir",
    envvar="DRADRIVER_CDI_DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of its CDI specs.  [default: /var/run/cdi; of a --plugins-dir the folder cdi beside it]",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Look at the nodes of the cluster in this data folder of `dradriver up` only.",
)
@click.option("--driver", help="Only claims of the driver of this name (loop.example.com).")
@output_option
def status(
    plugins_dir: Path | None, cdi_dir: Path | None, data: Path | None, driver: str | None, output: str
) -> None:
    """Show the claims that are prepared on this node, its pools, and whether its drivers are ready.

    Reads the state files of dradriver's drivers, of this machine's kubelet and of the nodes of `dradriver up`;
    drivers may be running or not. Needs the rights to read the files.
    """
    found = _found(_looked_at(plugins_dir, cdi_dir, data), driver)
    if output != "table":
        head = {"apiVersion": "dradriver/v1", "kind": "NodeStatus"}
        tables = [_rows(folders, data_dirs) for folders, data_dirs in found]
        sections = {name: [row for each in tables for row in each[name]] for name in _SECTIONS}
        document({**head, **sections}, output)
        return
    now = datetime.now(UTC)
    named = len(found) > 1 or found[0][0].cluster is not None
    for number, (folders, data_dirs) in enumerate(found):
        if named:
            click.echo(("\n" if number else "") + f"{folders.title}:")
        _show_node(_rows(folders, data_dirs), now)


_SECTIONS = ("items", "pools", "instances")


def _looked_at(plugins_dir: Path | None, cdi_dir: Path | None, data: Path | None) -> Sequence[NodeFolders]:
    if data is not None:
        if plugins_dir is not None:
            raise UsageError("--data and --plugins-dir name different folders: give one of them")
        return list(folders_of_up(data))
    own = kubelets_folders(plugins_dir, cdi_dir)
    return [own] if plugins_dir is not None else [own, *folders_of_up(default_data())]


def _found(looked_at: Sequence[NodeFolders], driver: str | None) -> list[tuple[NodeFolders, list[Path]]]:
    """Return the folders with state of a driver, and the drivers' data directories.

    Raises:
        NotFoundError: there is none.
    """
    # The node side is slow to import (gRPC).
    from dradriver.node.state.database import FILE_NAME  # noqa: PLC0415

    every = [
        (folders, sorted(path.parent for path in folders.plugins.glob(f"{driver or '*'}/{FILE_NAME}")))
        for folders in looked_at
    ]
    found = [(folders, paths) for folders, paths in every if paths]
    if not found:
        wanted = f"of driver {driver} " if driver else ""
        where = ", ".join(str(each.plugins) for each in looked_at) or "the data folder: it holds no nodes"
        raise NotFoundError(
            f"no prepared state {wanted}in {where}: no driver has run there, or you may not read it; "
            "--plugins-dir, or --data of `dradriver up`, names another"
        )
    return found


def _rows(folders: NodeFolders, data_dirs: Sequence[Path]) -> Mapping[str, list[dict[str, object]]]:
    whose = {"cluster": str(folders.cluster) if folders.cluster else None, "node": folders.node or None}
    return {
        "items": [row | whose for data_dir in data_dirs for row in _claims(data_dir, folders.cdi)],
        "pools": [row | whose for data_dir in data_dirs for row in _pools(data_dir)],
        "instances": [row | whose for data_dir in data_dirs for row in _instances(data_dir)],
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
            ",".join(str(each) for each in _devices(row)),
            age(datetime.fromisoformat(str(row["since"])), now),
            str(row["cdiSpecState"]),
        ]
        for row in rows
    )
    table(COLUMNS, shown, empty="No claims are prepared here.")


def _devices(row: Mapping[str, object]) -> list[object]:
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
            **_spec(cdi_dir, names.file(record.uid), wanted=any(map(_edits, record.answers))),
        }


def _pools(data_dir: Path) -> Iterator[dict[str, object]]:
    from dradriver.node.reporting.pool_file import read_pools  # noqa: PLC0415

    try:
        known = read_pools(data_dir)
    except DraError as error:  # claims are shown nevertheless
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
    from dradriver.node.reporting.instance_file import read_instances  # noqa: PLC0415

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


def _edits(answer: "RecordedAnswer") -> bool:
    """Return whether a container gets edits from a CDI spec of the driver."""
    return answer.edits != type(answer.edits)()


def _spec(cdi_dir: Path | None, name: str, *, wanted: bool) -> dict[str, object]:
    """Return the path of a claim's CDI spec and whether it exists."""
    if cdi_dir is None or not _can_look(cdi_dir):
        return {"cdiSpec": None, "cdiSpecState": "not looked at"}
    path = cdi_dir / name
    if path.exists():
        return {"cdiSpec": str(path), "cdiSpecState": "present"}
    return {"cdiSpec": None, "cdiSpecState": "absent" if wanted else "not needed"}


def _can_look(folder: Path) -> bool:
    """Return whether the content or the absence of a folder is visible."""
    return os.access(folder, os.X_OK) or (not folder.exists() and os.access(folder.parent, os.X_OK))
