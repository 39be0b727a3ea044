"""Pods with binding conditions and extended resources, and a scheduler that is killed at random.

A controller sets conditions of devices to ready, failed and not ready. Answers to writes are lost, rarely or
mostly, and the watch shows late that a pod is bound. Each seed is one run of about a hundred steps. After each
write no two claims have one device, a running pod has all its claims, and no pod has two special claims. A
running pod that devices serve has the special claim that its status names. In the end only running pods hold
devices, and when all pods are deleted, no device is in use. KILLS in the environment, which `make faults` sets,
adds seeds.
"""

import os
import random
from collections.abc import Callable
from datetime import timedelta

import pytest

from dradriver.control.claims.ownership import claim_step, pod_step
from dradriver.control.claims.pod_claims import is_reserved_for, used_names
from dradriver.control.extended import is_special_for, requested_amounts, special_claim_owners
from dradriver.control.runtime.actions import LookUpPlan
from dradriver.testing import builders
from tests.unit.control.extended_pods import container, gpu_class, plugin_node, pod
from tests.unit.control.world import ATTACHED, FAILED, NOW, CrashError, World, cluster, slow_device

SEEDS = max(200, 5 * int(os.environ.get("KILLS", "0")))
CHUNKS = 10
STEPS = 100


def create_world() -> World:
    """Return two nodes with slow devices and one ready device, and pods that need more devices."""
    w = cluster(nodes=2, devices=2, slow=True)
    w.add(builders.slice_(slow_device("spare"), builders.device("quick"), node_name="node-2", pool="more"))
    w.add(builders.claim(name="shared"))
    w.add(builders.pod("shared", name="pod-1"), builders.pod("shared", name="pod-2", templates=["template"]))
    w.add(builders.pod(name="pod-3", templates=["template", "template"]))
    w.add(*(builders.pod(name=f"pod-{i}", templates=["template"]) for i in (4, 5)))
    w.classes.clear()
    w.add(gpu_class(), plugin_node("node-3", 1))
    w.add(pod("pod-6", gpu=1), pod("pod-7", implicit=1, init=(container("setup", implicit=2),)))
    w.add(pod("pod-8", gpu=2))
    return w


class RandomRun:
    def __init__(self, seed: int) -> None:
        self.w = create_world()
        self.w.watch_is_late = True
        self.random = random.Random(seed)
        self.loss_rate = self.random.choice([0.0, 0.1, 0.8])

    def check(self) -> None:
        held = [str(result.id) for claim in self.w.claims.values() for result in claim.results]
        assert len(held) == len(set(held)), held
        for claim in self.w.claims.values():
            assert claim.allocation is not None or not claim.status.reserved_for
        for each in self.w.pods.values():
            if each.spec.node_name and not each.finished:
                for claim in (self.w.claims[ref] for ref in used_names(each)):
                    assert claim.allocation is not None, f"{each.ref} runs without its devices"
                    assert is_reserved_for(claim, each), f"{each.ref} runs without a reservation"
        made = [claim for claim in self.w.claims.values() if list(special_claim_owners(claim))]
        for each in self.w.pods.values():
            special = [claim for claim in made if is_special_for(claim, each)]
            assert len(special) <= 1, special
            named = each.status.extended_resource_claim_status
            if each.spec.node_name in {"node-1", "node-2"} and requested_amounts(each) and not each.finished:
                assert named is not None
                assert [claim.metadata.name for claim in special] == [named.resource_claim_name]
            elif each.spec.node_name:
                assert not named or each.finished

    def one_of(self, refs: dict[str, object]) -> str:
        return self.random.choice(sorted(refs))

    def control(self) -> None:
        """Carry out one write of the controllers, which may be killed within it or after it."""
        w, kind = self.w, self.random.randrange(6)
        w.crash_after = 1 if self.random.random() < 0.1 else None
        try:
            if kind == 0 and w.pods:
                w.carry_out(pod_step(w.pods[self.one_of({**w.pods})], w.objects()))
            elif kind == 1 and w.claims:
                w.carry_out(claim_step(w.claims[self.one_of({**w.claims})], w.objects()))
            elif w.pods:
                self.schedule(self.one_of({**w.pods}))
        except CrashError:
            self.kill()
        w.crash_after = None

    def schedule(self, ref: str) -> None:
        """Carry out the next step of a pod, or lose its answer; half of the lost writes are stored."""
        step = self.w.scheduling_step(ref)
        lost = self.loss_rate / 3 if isinstance(step.action, LookUpPlan) else self.loss_rate
        if self.random.random() < lost:
            self.w.lose(ref, step, stored=self.random.random() < 0.5)
        else:
            self.w.carry_out(step)

    def kill(self) -> None:
        self.w.crash()

    def set_condition(self) -> None:
        """Set a condition of one claim, as the driver's controller does."""
        allocated = {ref: claim for ref, claim in self.w.claims.items() if claim.allocation}
        if allocated:
            kind, status = self.random.choice([(ATTACHED, "True"), (ATTACHED, "False"), (FAILED, "True")])
            self.w.set_condition(self.one_of({**allocated}), kind, status)

    def end_pod(self) -> None:
        names = [pod.metadata.name for pod in self.w.pods.values()]
        if len(names) > 3:
            name = self.random.choice(names)
            if self.w.pod(name).spec.node_name and self.random.random() < 0.5:
                self.w.change(name, phase="Succeeded")
            else:
                self.w.delete_pod(name)

    def change_classes(self) -> None:
        """Add or remove a newer class for the resource."""
        newer = gpu_class("newer", created=NOW + timedelta(days=1))
        if self.w.classes.pop("newer", None) is None:
            self.w.add(newer)

    def event(self) -> Callable[[], object]:
        chance = self.random.random()
        if chance < 0.8:
            return self.control
        if chance < 0.9:
            return self.set_condition
        if chance < 0.93:
            return self.w.catch_up
        return self.random.choice(
            [
                self.kill,
                self.end_pod,
                self.change_classes,
                lambda: self.w.pass_time(self.random.choice([1, 300])),
            ]
        )

    def execute(self) -> None:
        for _ in range(STEPS):
            self.event()()
            self.check()
        self.settle()
        for each in list(self.w.pods.values()):
            self.w.delete_pod(each.metadata.name)
        self.w.settle()
        left = [(claim.ref, claim.results) for claim in self.w.claims.values()]
        assert left == [("default/shared", [])]

    def settle(self) -> None:
        """Make all devices ready, and check that each pod is bound or holds nothing."""
        self.w.watch_is_late = False
        self.w.catch_up()
        for _ in range(12):
            self.w.settle()
            self.check()
            for claim in self.w.claims.values():
                if claim.allocation and not any(
                    c.type == FAILED for d in claim.status.devices for c in d.conditions
                ):
                    self.w.set_condition(claim.ref, ATTACHED)
        waiting = [each for each in self.w.pods.values() if not each.spec.node_name and not each.finished]
        for each in waiting:
            assert not each.status.nominated_node_name, f"{each.ref} waits for ready devices"
        running = {pod.metadata.uid for pod in self.w.pods.values() if pod.spec.node_name and not pod.finished}
        for claim in self.w.claims.values():
            users = {consumer.uid for consumer in claim.status.reserved_for}
            assert users <= running, f"{claim.ref} is reserved for a pod that waits"
            assert bool(users) == (claim.allocation is not None), f"{claim.ref}: allocated iff it is in use"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_after_kills_no_device_has_two_claims_and_none_leaks(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        run = RandomRun(seed)
        try:
            run.execute()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
