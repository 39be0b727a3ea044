"""After any history of a cluster, the placer places a pod as trying every node would.

More clusters, of some kinds only: `CLUSTERS=2000 KIND=superpods,racks pytest ...`. `SEED` repeats a run.
Several runs at once need no coordination, because each takes its own seed.
"""

import os
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from importlib import import_module
from typing import Final

import pytest

from dradriver.allocator import ORDERED, PACKED, Order, Refusal
from dradriver.allocator.placement import NoNodeFits, Placement, Placer
from dradriver.model.resource.claim import ResourceClaim
from tests.properties.allocator.clusters import Cluster, by_brute_force
from tests.properties.allocator.random_clusters import MAKERS, make_cluster
from tests.seeds import choose_seed

CLUSTERS = int(os.environ.get("CLUSTERS", "2"))
KINDS = [kind for kind in MAKERS if kind in os.environ.get("KIND", ",".join(MAKERS)).split(",")]
EVENTS = 10
SOME_NODES_ONLY: Final = 0.2
"""Probability that a pod is also placed on some of the nodes only."""
TIMEOUT: Final = 60 + CLUSTERS
_LIMITS: Final[Mapping[str, tuple[str, ...]]] = {
    "fleet.fleet": ("_MAX_PARTS", "_MAX_PARTS_PER_SLICE", "_MAX_JOURNAL", "_MAX_OLD_OUTLOOKS"),
    "fleet.components": ("_MAX_COSTS", "_MAX_ANSWERS"),
    "fleet.sections": ("_MAX_KNOWN",),
    "classes.node_classes": ("_MAX_EMPTY", "_MAX_JOURNAL"),
    "classes.lens": ("_MAX_SIGNATURES",),
    "evaluation.candidate_masks": ("_MAX_KNOWN", "_MAX_GROUPS", "_MAX_PREPARED"),
    "evaluation.part_evaluator": ("_MAX_LAYOUTS",),
    "shapes.claim_shapes": ("_MAX_VERDICTS", "_MAX_OLD_GROUPS"),
    "shapes.class_groups": ("_MAX_STALE_MEMBERS",),
    "shapes.class_heap": ("_MAX_STALE_ENTRIES",),
    "shapes.own_verdicts": ("_MAX_VERDICTS",),
}
"""By module of the placer, the limits of its caches."""


def placed(asked: Placer, pod: list[ResourceClaim], allowed: Container[str] | None = None) -> Placement | str:
    may_run_on = None if allowed is None else lambda node: node.name in allowed
    try:
        return asked.place(pod, may_run_on=may_run_on)
    except Refusal as refusal:
        return refusal.kind
    except NoNodeFits as nowhere:
        return nowhere.kind


@pytest.fixture
def without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear all caches at once."""
    package = "dradriver.allocator.placement"
    for module, limits in _LIMITS.items():
        for limit in limits:
            monkeypatch.setattr(import_module(f"{package}.{module}"), limit, 0)
    monkeypatch.setattr(import_module(f"{package}.shapes.shape_cache"), "_MAX_SHAPES", 1)


@pytest.mark.usefixtures("without_cache")
@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in {"anything", "shared"}])
def test_after_any_events_without_caches(kind: str) -> None:
    test_after_any_events(PACKED, kind)


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
def test_after_any_events(order: Order, kind: str) -> None:
    seed = choose_seed()
    print(f"SEED={seed}")
    answers: Counter[str] = Counter()
    for number in range(CLUSTERS):
        answers.update(compare(seed + number, order, kind))
    print(f"{order.name} {kind}: {dict(answers)}")


def compare(seed: int, order: Order, kind: str) -> Iterator[str]:
    """Yield the answers for a cluster, each of which both gave."""
    cluster = make_cluster(seed, order, kind)
    for event in range(EVENTS):
        cluster.apply_event()
        pod = cluster.pod()
        expected = by_brute_force(cluster, pod)
        assert placed(cluster.placer, pod) == expected, (seed, event)
        yield describe(cluster, expected)
        if cluster.chance.random() < SOME_NODES_ONLY:
            some = set(cluster.chance.sample(sorted(cluster.nodes), len(cluster.nodes) // 2))
            assert placed(cluster.placer, pod, some) == by_brute_force(cluster, pod, some), (seed, event, some)
        if event == EVENTS - 1:
            assert placed(cluster.new_placer(), pod) == expected, (seed, "from scratch")


def describe(cluster: Cluster, answer: Placement | str) -> str:
    """Return the answer in a word: what was refused, or whether a placement has devices that others reach."""
    if isinstance(answer, str):
        return answer
    own = {
        (each.spec.driver, each.spec.pool.name) for each in cluster.slices.values() if each.spec.node_name
    } - {(each.spec.driver, each.spec.pool.name) for each in cluster.slices.values() if not each.spec.node_name}
    results = [result for each in answer.allocations.values() for result in each.devices.results]
    if not results:
        return "placed without a device"
    return (
        "placed" if all((each.driver, each.pool) in own for each in results) else "placed with shared devices"
    )
