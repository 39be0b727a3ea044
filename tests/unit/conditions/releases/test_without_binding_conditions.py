"""An API server drops binding conditions, and nodes let go first: both rules hold together."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.node.claims.lookup import claim_ref
from dradriver.node.claims.unprepare import unprepare
from tests.unit.conditions.fabric import Lab, laboratory
from tests.unit.conditions.releases.releasing import (
    Memory,
    OnNode,
    hurry,
    is_ready,
    let_go,
    one_node,
    plugin_of,
    until_noted,
)
from tests.unit.conditions.without_conditions import GATE, Pools, answer_of, final_answer


class ReleasedPools(Pools):
    node_releases = True


@pytest.fixture
async def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lab]:
    hurry(monkeypatch)
    async with laboratory(tmp_path, **{GATE: False}) as made:
        await one_node(made, tmp_path)
        yield made


async def test_a_device_is_attached_prepared_released_and_detached(lab: Lab, tmp_path: Path) -> None:
    memory = Memory()
    node = OnNode(memory)
    async with lab.scheduler(), lab.driver(ReleasedPools(memory)), plugin_of(lab, node, tmp_path) as plugin:
        await is_ready(lab)
        await lab.pod()
        assert await lab.bound() == "memory-0"
        assert not await final_answer(plugin, lab)
        assert [name for name, _ in node.attached] == ["memory-0"]
        claim = lab.claim()
        await lab.delete_pod()
        await lab.until(lambda _, claims: claims["default/pod-1"].allocation is None)
        assert memory.attached.keys() == {"memory-0"}
        await unprepare(plugin.parts.claims, claim_ref(claim))
        await let_go(lab)
    assert not memory.attached
    assert not memory.pulled


async def test_a_device_that_fails_on_its_node_is_released_when_its_pod_is_deleted(
    lab: Lab, tmp_path: Path
) -> None:
    memory = Memory()
    node = OnNode(memory, "memory-0")
    async with lab.scheduler(), lab.driver(ReleasedPools(memory)), plugin_of(lab, node, tmp_path) as plugin:
        await is_ready(lab)
        await lab.pod()
        await lab.bound()
        assert "NoWindow" in await final_answer(plugin, lab)
        assert "NoWindow" in (await answer_of(plugin, lab)).error
        await until_noted(lab, lambda found: bool(found.entries))
        await lab.delete_pod()
        await let_go(lab)
        assert node.unprepared
    assert not memory.attached
    assert not memory.pulled
