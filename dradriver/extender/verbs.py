"""The verbs of the extender: convert between the protocol and the decisions of `cycle`."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from dradriver.control.preemption.victims import Victims
from dradriver.control.scheduler.snapshot import Plan, Unschedulable
from dradriver.extender.cycle import ExtenderCycle
from dradriver.extender.protocol import (
    MAX_SCORE,
    BindArgs,
    FilterResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    PodState,
)
from dradriver.model.core.workload import Pod

__all__ = ["ExtenderVerbs"]


class ExtenderVerbs:
    """Implements `protocol.Verbs`.

    Args:
        cycle: makes and carries out the plans.
        explain_contested: returns which pools are not served, because they have another allocator.
        find_signs: returns all signs of another allocator.
    """

    def __init__(
        self,
        cycle: ExtenderCycle,
        explain_contested: Callable[[], str] = lambda: "",
        find_signs: Callable[[], str] = lambda: "",
    ) -> None:
        self._cycle = cycle
        self._explain_contested = explain_contested
        self._find_signs = find_signs

    @property
    def notice(self) -> str:
        """Return which pools are not served, because they have another allocator; empty if there is none."""
        return self._explain_contested()

    @property
    def second_allocator(self) -> str:
        """Return all signs of another allocator; empty if there is none."""
        return self._find_signs()

    def explain(self, pod: str) -> PodState:
        """Return what the extender knows about a pod (`namespace/name`)."""
        state, message = self._cycle.pod_states.describe(pod)
        return PodState(pod=pod, state=state, message=message)

    async def filter(self, pod: Pod, nodes: Sequence[str]) -> FilterResult:
        """Return on which of the nodes the pod can run.

        Raises:
            BindError: the devices of the last attempt are being released.
        """
        if self._cycle.accepts_all(pod):
            return FilterResult(node_names=list(nodes))
        verdict = await self._cycle.find_nodes(pod, nodes)
        if isinstance(verdict, Plan):
            return FilterResult(node_names=[verdict.node, *verdict.other_nodes])
        failed, resolvable = _failed_nodes(verdict, nodes), dict[str, str]()
        nominated = pod.status.nominated_node_name
        if nominated and nominated == verdict.nominated_node and nominated in failed:
            # Otherwise kube-scheduler would clear the nomination while the pod waits for its victims.
            resolvable[nominated] = failed.pop(nominated)
        return FilterResult(node_names=[], failed_nodes=resolvable, failed_and_unresolvable_nodes=failed)

    async def prioritize(self, pod: Pod, nodes: Sequence[str]) -> Sequence[HostPriority]:
        """Return the scores of the nodes. A node that the last `filter` did not find has the worst score."""
        scores = self._cycle.score_nodes(pod, nodes)
        return [HostPriority(host=name, score=round(MAX_SCORE * score)) for name, score in scores.items()]

    async def preempt(self, pod: Pod, victims: Mapping[str, MetaVictims]) -> Mapping[str, MetaVictims]:
        """Return the nodes on which evictions give the pod its devices, too, with all pods to evict.

        If the last `filter` began to evict pods from a node, no other node is returned: otherwise
        kube-scheduler would evict pods from a second node. Without any node, it keeps the pod's nomination.
        """
        found = {node: self._cycle.find_pods(each.uid for each in own.pods) for node, own in victims.items()}
        if evicts_on := self._cycle.evicts_on(pod):
            found = {node: pods for node, pods in found.items() if node == evicts_on}
        trimmed = await self._cycle.trim_victims(pod, found)
        return {node: _as_meta_victims(each) for node, each in trimmed.items()}

    def bind(self, args: BindArgs) -> Coroutine[Any, Any, None]:
        """Reserve the devices of a pod, wait until they are ready, and bind the pod.

        Raises:
            BindError: the pod was not bound, and its devices were released.
        """
        # Thousands of these calls may wait, so this adds no frame of its own.
        return self._cycle.bind(f"{args.pod_namespace}/{args.pod_name}", args.pod_uid, args.node)


def _as_meta_victims(victims: Victims) -> MetaVictims:
    pods = [MetaPod(uid=pod.metadata.uid) for pod in victims.pods]
    return MetaVictims(pods=pods, num_pdb_violations=victims.violations)


def _failed_nodes(verdict: Unschedulable, nodes: Sequence[str]) -> dict[str, str]:
    """Return why each node does not suit the pod.

    Preemption by kube-scheduler frees no devices, so all reasons are unresolvable for it.
    """
    reasons = verdict.refusals.by_node() if verdict.refusals is not None else {}
    others = verdict.every_node or "node(s) are unknown to the extender yet"
    return {name: reasons.get(name, others) for name in nodes}
