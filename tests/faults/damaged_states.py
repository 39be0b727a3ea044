"""Start drivers on damaged files of the prepared state, one after another, and print each result.

python -m tests.faults.damaged_states FOLDER SEED FIRST COUNT
"""

import asyncio
import faulthandler
import logging
import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from dradriver.errors import DraError
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.node.errors import DeviceInUseError
from dradriver.node.reporting.status import node_status
from dradriver.node.state.claim_states import ClaimState
from dradriver.node.state.rows import Rows
from tests.unit.node.world import LampDriver, Process, World, allocated, ref

LAMPS = 8
PREPARED = 6
PAGE = 4096

Damage: TypeAlias = Callable[[random.Random, Path], str]


def parts(root: Path) -> list[Path]:
    return [path for name in ("state.db", "state.db-wal", "state.db-shm") if (path := root / name).exists()]


def changed(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def one_byte(chance: random.Random, path: Path, first: int, end: int) -> str:
    at = first + chance.randrange(max(1, min(end, path.stat().st_size) - first))
    value = chance.choice([0, 0xFF, chance.randrange(256)])
    changed(path, at, bytes([value]))
    return f"{path.name}[{at}]={value:#x}"


def bytes_anywhere(chance: random.Random, root: Path) -> str:
    many = chance.choice([1, 1, 2, 4, 32])
    return " ".join(one_byte(chance, chance.choice(parts(root)), 0, 2**31) for _ in range(many))


def a_byte_of_the_header(chance: random.Random, root: Path) -> str:
    return one_byte(chance, root / "state.db", 0, 108)


def a_byte_of_the_schema(chance: random.Random, root: Path) -> str:
    return one_byte(chance, root / "state.db", 100, PAGE)


def a_byte_of_the_wal(chance: random.Random, root: Path) -> str:
    path = root / "state.db-wal"
    return one_byte(chance, path, 0, 2**31) if path.exists() else "no WAL"


def cut(chance: random.Random, root: Path) -> str:
    path = chance.choice(parts(root))
    size = path.stat().st_size
    end = chance.choice([0, size // 2, chance.randrange(size + 1), chance.randrange(size // PAGE + 1) * PAGE])
    os.truncate(path, end)
    return f"{path.name} cut at {end} of {size}"


def grown(chance: random.Random, root: Path) -> str:
    path = chance.choice(parts(root))
    with path.open("ab") as file:
        file.write(chance.randbytes(chance.choice([1, PAGE])))
    return f"{path.name} is longer"


def missing(chance: random.Random, root: Path) -> str:
    there = parts(root)
    gone = chance.sample(there, chance.randint(1, len(there)))
    for path in gone:
        path.unlink()
    return f"without {' '.join(path.name for path in gone)}"


def pages(chance: random.Random, root: Path) -> str:
    path = root / "state.db"
    count = path.stat().st_size // PAGE
    one, two = chance.randrange(count), chance.randrange(count)
    data = path.read_bytes()
    first, second = (data[page * PAGE : (page + 1) * PAGE] for page in (one, two))
    how = chance.choice(["swapped with", "zeroed, not", "random, not", "copied from", "torn like"])
    if how == "swapped with":
        changed(path, two * PAGE, first)
    new = {"zeroed, not": bytes(PAGE), "random, not": chance.randbytes(PAGE), "torn like": second[:512]}
    changed(path, one * PAGE, new.get(how, second))
    return f"page {one} {how} {two}"


def another_number(chance: random.Random, root: Path) -> str:
    """Change a number: valid for SQLite, wrong in its meaning."""
    pragma = chance.choice(["user_version", "application_id"])
    value = chance.choice([-1, 0, 1, 2, 3, 4, 2**31 - 1])
    with closing(sqlite3.connect(root / "state.db", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA {pragma} = {value}")
    return f"{pragma} = {value}"


def another_value(chance: random.Random, root: Path) -> str:
    """Change a value of a row: valid for SQLite, wrong in its meaning, as a disk may return it."""
    statement = chance.choice(
        [
            "UPDATE claims SET record = CAST(replace(CAST(record AS TEXT), 'lamp-', 'lump-') AS BLOB)",
            "UPDATE claims SET record = CAST(replace(CAST(record AS TEXT), 'lamp-1', 'lamp-7') AS BLOB)",
            "UPDATE claims SET uid = uid || 'x' WHERE uid = 'uid-2'",
            "UPDATE claims SET state = 'unpreparing' WHERE uid = 'uid-3'",
            "UPDATE claims SET since = since + 1",
            "UPDATE offers SET value = CAST(replace(CAST(value AS TEXT), '1', '2') AS BLOB)",
            "DELETE FROM claims WHERE uid = 'uid-4'",
            "DELETE FROM claims",
            "DELETE FROM completed",
            "DROP TABLE offers",
            "CREATE TRIGGER more AFTER INSERT ON claims BEGIN DELETE FROM claims; END",
        ]
    )
    with closing(sqlite3.connect(root / "state.db", isolation_level=None)) as connection:
        try:
            connection.execute(statement)
        except sqlite3.Error as error:
            return f"{statement}: {error}"
    return statement


def an_old_file(chance: random.Random, root: Path) -> str:
    """Restore the file from before the newest transactions, with or without the current WAL."""
    shutil.copy(root / "old.db", root / "state.db")
    if chance.random() < 0.5:
        (root / "state.db-wal").unlink(missing_ok=True)
    return "an old file"


DAMAGES: list[Damage] = [
    *(bytes_anywhere, bytes_anywhere, a_byte_of_the_header, a_byte_of_the_schema, a_byte_of_the_wal, cut),
    *(grown, missing, pages, pages, another_number, another_value, an_old_file),
]


def lamps(world: World) -> LampDriver:
    return LampDriver(world.hardware, [Device(f"lamp-{n}") for n in range(LAMPS)])


def claim(n: int) -> ResourceClaim:
    color = (b"blue" * 200)[: 100 * n]
    config = b'{"apiVersion":"lamp.example.com/v1","kind":"LampConfig","color":"%s"}' % color
    return allocated(f"claim-{n}", f"lamp-{n}", uid=f"uid-{n}", parameters=config)


async def a_node_that_is_killed(root: Path) -> World:
    """Prepare claims; some of them are only in the WAL."""
    world = World(root)
    root.mkdir()
    kept = root.with_name("kept")
    async with world.running(driver=lamps(world)) as process:
        for n in range(PREPARED):
            await process.prepare(world.api.add(claim(n)))
            if n == PREPARED // 2:
                gone = allocated("gone", f"lamp-{PREPARED}")
                await process.prepare(gone)
                with closing(sqlite3.connect(world.state_file)) as connection:
                    connection.execute("PRAGMA wal_checkpoint")
                shutil.copy(world.state_file, root / "old.db")
                await process.unprepare(ref(gone))
        shutil.copytree(root, kept)
    shutil.rmtree(root)
    kept.rename(root)
    return world


def copied(node: World, root: Path, chance: random.Random) -> World:
    """Return a copy of the node's files: after a kill, or after a proper end."""
    shutil.copytree(node.root, root)
    world = World(root, dict(node.hardware))
    world.api.claims = dict(node.api.claims)
    if chance.random() < 0.3:
        with closing(sqlite3.connect(world.state_file)) as connection:
            connection.execute("SELECT 1 FROM claims").fetchall()
    return world


async def assert_rebuilt(world: World) -> str:
    """Open the file, then act as a kubelet, with rivals for each device that is in use."""
    async with world.running(driver=lamps(world), complete=False) as process:
        for row in await process.rows():
            number = row.record.name.removeprefix("claim-")
            expected = f"lamp-{PREPARED if number == 'gone' else number}"
            assert [device.device for device in row.record.devices] == [expected], row
        await assert_refused(process, complete=False)
        complete = await process.state.read(Rows.is_marked_complete)
        await process.rebuilder.ensure_complete()
        await assert_refused(process, complete=True)
        known = list(world.api.claims.values())
        await asyncio.gather(*map(process.prepare, known))
        await process.reconciler.collect()
        await process.reconciler.sweep()
        rows = {row.uid: row for row in await process.rows()}
        uids = {each.metadata.uid for each in known}
        assert set(rows) == uids == world.specs() == set(world.hardware), (set(rows), world.specs())
        assert {row.state for row in rows.values()} == {ClaimState.PREPARED}
        free = allocated("free", f"lamp-{LAMPS - 1}")
        await process.prepare(free)
        await process.unprepare(ref(free))
    if node_status(world.root).set_aside:
        return "set aside"
    return "knew all" if complete and not process.driver.calls[2:] else "rebuilt in place"


async def assert_refused(process: Process, *, complete: bool) -> None:
    async def assert_one_refused(n: int) -> None:
        rival = allocated(f"rival-{n}", f"lamp-{n}")
        try:
            await process.prepare(rival, None if complete else 0.001)
        except DeviceInUseError:
            return
        except DraError:
            if complete:
                raise
            return
        raise AssertionError(f"lamp-{n} was given twice")

    await asyncio.gather(*map(assert_one_refused, range(PREPARED)))


async def main(folder: Path, seed: int, first: int, count: int) -> None:
    """Print one line when a case begins, with its damage, and one when it has ended."""
    logging.disable()
    node = await a_node_that_is_killed(folder / "node")
    for number in range(first, first + count):
        chance = random.Random(f"{seed}/{number}")
        world = copied(node, folder / "case", chance)
        damage = DAMAGES[number % len(DAMAGES)]
        description = damage(chance, world.root)
        print(f"{number} {damage.__name__}: {description}", flush=True)
        print(await assert_rebuilt(world), flush=True)
        shutil.rmtree(world.root)


if __name__ == "__main__":
    faulthandler.enable()
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
