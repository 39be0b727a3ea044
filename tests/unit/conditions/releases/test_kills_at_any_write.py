"""Each side dies right after its n-th write; the next process has the same result, and nothing is pulled."""

import asyncio
import os
from pathlib import Path

import pytest

from dradriver.node.claims.lookup import claim_ref
from dradriver.node.claims.unprepare import unprepare
from dradriver.runner.binding_node import BindingPlugin
from tests.unit.conditions.fabric import Lab
from tests.unit.conditions.killed import Dying, dying
from tests.unit.conditions.releases.releasing import (
    Memory,
    OnNode,
    Pools,
    hurry,
    is_ready,
    let_go,
    one_node,
    plugin_of,
)
from tests.unit.node.plugin_world import prepare

STEP = 1 if "KILLS" in os.environ else 3
"""`make faults` kills at every write, `make test` at every third."""

POOL_WRITES = range(3, 11, STEP)
"""From the record of the attachment, by way of the conditions and data, to the record's end."""

NODE_WRITES = range(2, 8, STEP)
"""From the note, by way of the conditions, to the note without the entry."""


@pytest.fixture
async def folder(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    hurry(monkeypatch)
    await one_node(lab, tmp_path)
    return tmp_path


@pytest.mark.parametrize("number", POOL_WRITES)
async def test_the_next_pool_driver_continues(lab: Lab, folder: Path, number: int) -> None:
    memory = Memory()
    async with lab.scheduler(), plugin_of(lab, OnNode(memory), folder) as plugin:
        await is_ready(lab)
        async with dying(lab, Pools(memory), number) as died:
            life = asyncio.create_task(live(lab, plugin))
            dead = asyncio.create_task(died.wait())
            await asyncio.wait({life, dead}, return_when="FIRST_COMPLETED")
            dead.cancel()
        async with lab.driver(Pools(memory)):
            await life
    assert (memory.pulled, memory.regions, memory.attached) == ([], {}, {})


@pytest.mark.parametrize("number", NODE_WRITES)
async def test_the_next_process_of_the_node_continues(lab: Lab, folder: Path, number: int) -> None:
    """No prepare follows: the pod is deleted as soon as it is bound."""

    class Killed(Dying):
        at = number
        died = asyncio.Event()

    memory = Memory()
    node = OnNode(memory)
    async with lab.scheduler(), lab.driver(Pools(memory)):
        async with plugin_of(lab, node, folder, Killed):
            life = asyncio.create_task(wait_and_end(lab))
            dead = asyncio.create_task(Killed.died.wait())
            await asyncio.wait({life, dead}, return_when="FIRST_COMPLETED")
            dead.cancel()
        async with plugin_of(lab, node, folder):
            await life
    assert (memory.pulled, memory.regions, memory.attached) == ([], {}, {})


async def live(lab: Lab, plugin: BindingPlugin) -> None:
    await lab.pod()
    await lab.bound()
    claim = lab.claim()
    assert not (await prepare(plugin, claim))[claim.metadata.uid].error
    await lab.delete_pod()
    await lab.until(lambda _, claims: claims["default/pod-1"].allocation is None)
    await unprepare(plugin.parts.claims, claim_ref(claim))
    await let_go(lab)


async def wait_and_end(lab: Lab) -> None:
    await is_ready(lab)
    await lab.pod()
    await lab.bound()
    await lab.delete_pod()
    await let_go(lab)
