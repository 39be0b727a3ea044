"""The order of nodes whose claims have a part that shared pools serve, and what is evaluated again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dradriver.allocator import ORDERED, PACKED, Order
from dradriver.allocator.placement import NoNodeFits, Placer
from dradriver.allocator.placement.evaluation.part_evaluator import PartEvaluator
from tests.unit.allocator.placement.fleets import SLOW, gpu, holder, own, placer_of, reads, shared
from tests.unit.allocator.worlds import claim, request

NEAR = request("near", reads("place", "== 'near'"))
FAR = request("far", reads("place", "== 'far'"))
BOTH = [claim(NEAR, FAR)]


def cluster(order: Order, *far: dict[str, Any], **near: dict[str, Any]) -> Placer:
    """Return nodes with a near device each, which has this body, and far devices that all of them reach."""
    members = [gpu(f"far-{n}", body, place="far") for n, body in enumerate(far)]
    nodes = [own(node, gpu("x", body, place="near")) for node, body in near.items()]
    return placer_of(shared(*members), *nodes, order=order)


def test_if_a_shared_device_has_binding_conditions_the_first_node_by_name_is_chosen() -> None:
    """No node fits without binding conditions, so the near device of the first node may have them too."""
    assert cluster(ORDERED, SLOW, a=SLOW, b={}).place(BOTH).node == "a"
    assert cluster(ORDERED, {}, a=SLOW, b={}).place(BOTH).node == "b"
    assert cluster(PACKED, SLOW, a=SLOW, b={}).place(BOTH).node == "b"


def test_if_a_shared_device_has_binding_conditions_the_first_allowed_node_by_name_is_chosen() -> None:
    placer = cluster(ORDERED, SLOW, a={}, b=SLOW, c={})
    assert placer.place(BOTH, may_run_on=lambda node: node.name != "a").node == "b"


def test_the_shared_devices_with_binding_conditions_come_into_use_when_the_others_are_held() -> None:
    placer = cluster(ORDERED, {}, SLOW, a=SLOW, b={})
    assert placer.place(BOTH).node == "b"
    placer.put_claim(holder("fabric", "far-0"))
    assert placer.place(BOTH).node == "a"
    placer.put_claim(holder("fabric", "far-1"))
    with pytest.raises(NoNodeFits):
        placer.place(BOTH)
    placer.remove_claim("default/fabric-far-0")
    assert placer.place(BOTH).node == "b"


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield a list that gets the name of the node for each evaluation."""
    evaluated: list[str] = []
    evaluate = PartEvaluator.evaluate

    def counted(self: Any, part: Any, signature: Any, node: Any, entries: Any) -> Any:
        evaluated.append(node.name)
        return evaluate(self, part, signature, node, entries)

    with monkeypatch.context() as patch:
        patch.setattr(PartEvaluator, "evaluate", counted)
        yield evaluated


def test_a_hold_in_a_shared_pool_evaluates_only_the_part_that_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    placer = cluster(PACKED, {}, {}, a={}, b=SLOW, c={"taints": []})
    only_near, only_far = [claim(NEAR)], [claim(FAR)]
    for pod in (only_near, only_far, BOTH):
        placer.place(pod)
    placer.put_claim(holder("fabric", "far-0"))
    with counting(monkeypatch) as evaluated:
        placer.place(only_near)
        assert evaluated == []
        placer.place(BOTH)
        assert len(evaluated) == 1
        placer.place(only_far)
        assert len(evaluated) == 2


def test_a_hold_on_a_node_evaluates_only_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    placer = cluster(PACKED, {}, {}, **{name: {} for name in "abcdef"})
    placer.place(BOTH)
    placer.put_claim(holder("c", "x"))
    with counting(monkeypatch) as evaluated:
        assert placer.place(BOTH).node == "a"
    assert evaluated == ["c"]


def test_claims_that_own_and_shared_devices_can_serve_are_decided_again_after_each_hold() -> None:
    placer = cluster(ORDERED, {}, a={}, b={})
    pair = [claim(request(count=2))]
    assert placer.place(pair).node == "a"
    placer.put_claim(holder("a", "x"))
    assert placer.place(pair).node == "b"
    placer.put_claim(holder("fabric", "far-0"))
    with pytest.raises(NoNodeFits):
        placer.place(pair)
    placer.remove_claim("default/fabric-far-0")
    assert placer.place(pair).node == "b"
