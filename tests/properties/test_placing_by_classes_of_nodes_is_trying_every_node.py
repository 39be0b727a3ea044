"""However a cluster came to be what it is, a pod goes where trying every node would put it."""

import os
from collections import Counter
from random import SystemRandom

import pytest

from dradriver.allocator import ORDERED, PACKED, Order, Refusal
from dradriver.allocator.placement import (
    NoNodeFits,
    Placement,
    Placer,
    blueprint,
    claim_shapes,
    classes,
    fleet,
    placer,
)
from dradriver.model.resource.claim import ResourceClaim
from tests.properties.random_clusters import MAKERS, Cluster, by_brute_force

CLUSTERS = int(os.environ.get("CLUSTERS", "4"))
EVENTS = 10


def placed(asked: Placer, pod: list[ResourceClaim]) -> Placement | str:
    try:
        return asked.place(pod)
    except Refusal as refusal:
        return refusal.kind
    except NoNodeFits as nowhere:
        return nowhere.kind


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is remembered is forgotten at once."""
    for module, limit in (
        (fleet, "_PARTS"), (fleet, "_PARTS_PER_SLICE"), (blueprint, "_STATES"), (blueprint, "_CANDIDATES"),
        (classes, "_FORGOTTEN"), (classes, "_JOURNAL"), (claim_shapes, "_VERDICTS"), (claim_shapes, "_SLACK"),
    ):  # fmt: skip
        monkeypatch.setattr(module, limit, 0)
    monkeypatch.setattr(placer, "_WISHES", 1)


@pytest.mark.usefixtures("forgetful")
def test_after_any_events_with_nothing_remembered() -> None:
    test_after_any_events(PACKED, "anything")


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
def test_after_any_events(order: Order, kind: str) -> None:
    seed = int(os.environ.get("PLACER_SEED") or SystemRandom().randrange(2**31))
    print(f"PLACER_SEED={seed}")
    answers: Counter[str] = Counter()
    for number in range(CLUSTERS):
        cluster = Cluster(seed + number, order, kind)
        for event in range(EVENTS):
            cluster.happen()
            pod = cluster.pod()
            expected = by_brute_force(cluster, pod)
            assert placed(cluster.placer, pod) == expected, (seed + number, event)
            answers[expected if isinstance(expected, str) else "placed"] += 1
            if event == EVENTS - 1:
                assert placed(cluster.told(), pod) == expected, (seed + number, "from scratch")
    print(answers)
