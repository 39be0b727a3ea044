"""Two instances with one prepared state: for any mix of work and failures, memory and file agree."""

import asyncio
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.node.state.claim_states import ClaimEvent, IllegalMoveError
from dradriver.node.state.database import read_rows
from dradriver.node.state.records import ClaimRecord
from dradriver.node.state.rows import Rows
from dradriver.node.state.store import StateStore

EVENTS: Final = (
    ClaimEvent.BEGIN_PREPARE,
    ClaimEvent.FINISH_PREPARE,
    ClaimEvent.BEGIN_UNPREPARE,
    ClaimEvent.FINISH_UNPREPARE,
)


class Work(NamedTuple):
    """One piece of work: the instance, an event or an amendment, the claim, and the failure."""

    instance: int
    event: ClaimEvent | None
    uid: str
    failure: str


class FailedError(Exception):
    """The failure that the work asks for."""


Change: TypeAlias = tuple[str, str, str]
"""Which claim, and its name before and after: each work gives it another."""

WORKS = st.lists(
    st.builds(
        Work,
        st.sampled_from([0, 1]),
        st.sampled_from([*EVENTS, None]),
        st.sampled_from(["uid-1", "uid-2", "uid-3"]),
        st.sampled_from(["", "", "", "first", "before", "after"]),
    ),
    max_size=8,
)
BATCHES = st.lists(
    st.tuples(st.sampled_from(["", "", "restart", "another program deletes"]), WORKS), max_size=5
)


class Instances:
    """Both instances, and the content of the file at the last rest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.states = [StateStore(path, "boot"), StateStore(path, "boot")]
        self.names: dict[str, str] = {}
        self.works = 0

    async def between(self, what: str) -> None:
        if what == "restart":
            await self.states[0].close()
            self.states[0] = StateStore(self.path, "boot")
            await self.states[0].open()
        elif what:
            with closing(sqlite3.connect(self.path)) as connection, connection:
                connection.execute("DELETE FROM claims WHERE uid = 'uid-1'")
            self.names.pop("uid-1", None)

    async def work(self, work: Work) -> Change | None:
        self.works += 1
        first = failing if work.failure == "first" else None
        try:
            return await self.states[work.instance].write(
                partial(change, work, f"name-{self.works}"), first=first
            )
        except (FailedError, IllegalMoveError):
            return None

    async def check(self, changes: list[Change]) -> None:
        rows = read_rows(self.path)
        for state in self.states:
            assert await state.read(Rows.all) == rows
            assert await state.write(Rows.all) == rows
        names = {row.uid: row.record.name for row in rows}
        for uid in ("uid-1", "uid-2", "uid-3"):
            before, after = self.names.get(uid, ""), names.get(uid, "")
            found = [each[1:] for each in changes if each[0] == uid]
            # A chain: each change found the result of another one, and none was lost.
            assert Counter([*(one for one, _ in found), after]) == Counter([before, *(two for _, two in found)])
        self.names = names


def failing(*_: object) -> None:
    raise FailedError


def change(work: Work, name: str, rows: Rows) -> Change:
    row = rows.get(work.uid)
    if work.failure == "before":
        raise FailedError
    record = ClaimRecord(uid=work.uid, name=name)
    if work.event is not None:
        rows.move(record, work.event)
    elif row is not None:
        rows.amend(record)
    if work.failure == "after":
        raise FailedError
    left = rows.get(work.uid)
    return work.uid, row.record.name if row else "", left.record.name if left else ""


async def play(path: Path, batches: list[tuple[str, list[Work]]]) -> None:
    instances = Instances(path)
    for state in instances.states:
        await state.open()
    for between, works in batches:
        await instances.between(between)
        outcomes = await asyncio.gather(*map(instances.work, works))
        await instances.check([outcome for outcome in outcomes if outcome is not None])
    for state in instances.states:
        await state.close()


@settings(max_examples=40)
@given(BATCHES)
def test_memory_and_file_agree_and_no_change_is_lost(batches: list[tuple[str, list[Work]]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        asyncio.run(play(Path(root) / "state.db", batches))
