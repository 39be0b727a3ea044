"""The messages between kube-scheduler and an extender, and the verbs.

Only extenders with `nodeCacheCapable: true` are served: a request names nodes instead of containing them, and
identifies victims by their UIDs.

Source: `k8s.io/kube-scheduler/extender/v1`. Its structs have no JSON tags, so field names are in PascalCase.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import Value

__all__ = [
    "MAX_SCORE",
    "BindArgs",
    "BindResult",
    "FilterArgs",
    "FilterResult",
    "HostPriority",
    "MetaPod",
    "MetaVictims",
    "PodState",
    "PreemptionArgs",
    "PreemptionResult",
    "Verbs",
]

MAX_SCORE: Final = 10
"""The best score of a node (`MaxExtenderPriority`); the worst score is 0."""


class _Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="pascal"):
    """Base class of the messages."""


class FilterArgs(_Message, frozen=True, kw_only=True):
    """The request of `filter` and of `prioritize` (`ExtenderArgs`).

    Attributes:
        pod: the pod to schedule.
        node_names: the nodes that passed kube-scheduler's own filters. None: kube-scheduler sent whole nodes,
            because the extender's entry lacks `nodeCacheCapable: true`.
    """

    pod: Pod
    node_names: list[str] | None = None


class FilterResult(_Message, frozen=True, kw_only=True):
    """The answer of `filter` (`ExtenderFilterResult`).

    Attributes:
        node_names: the nodes on which the pod can run.
        failed_nodes: by node, why the pod cannot run there, although preemption by kube-scheduler may help.
        failed_and_unresolvable_nodes: by node, why the pod cannot run there. Preemption by kube-scheduler does
            not help.
        error: why no decision was possible; empty if there was one. kube-scheduler tries the pod again later.
    """

    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(_Message, frozen=True, kw_only=True):
    """The score of a node in the answer of `prioritize`, from 0 to `MAX_SCORE`."""

    host: str
    score: int = 0


class BindArgs(_Message, frozen=True, kw_only=True):
    """The request of `bind` (`ExtenderBindingArgs`)."""

    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str


class BindResult(_Message, frozen=True, kw_only=True):
    """The answer of `bind`; `error` is empty if the pod is bound."""

    error: str = ""


class MetaPod(_Message, frozen=True, kw_only=True):
    """A pod, identified by its UID."""

    uid: str = msgspec.field(name="UID")


class MetaVictims(_Message, frozen=True, kw_only=True):
    """The pods to evict from a node, and how many PodDisruptionBudgets that violates."""

    pods: list[MetaPod] = []
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class PreemptionArgs(_Message, frozen=True, kw_only=True):
    """The request of `preempt` (`ExtenderPreemptionArgs`): by node, the victims that kube-scheduler selected.

    `node_name_to_meta_victims` is None if the extender's entry lacks `nodeCacheCapable: true`.
    """

    pod: Pod
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class PreemptionResult(_Message, frozen=True, kw_only=True):
    """The answer of `preempt` (`ExtenderPreemptionResult`): the nodes on which evictions make the pod fit."""

    node_name_to_meta_victims: dict[str, MetaVictims] = {}


class PodState(Value, frozen=True, kw_only=True):
    """What the extender knows about a pod: the answer to `GET /explain`, which kube-scheduler does not use.

    Attributes:
        pod: `namespace/name`.
        state: `unknown`, `refused`, `nominated`, `binding` or `releasing`, as in `pod_states`.
        message: one sentence for users.
    """

    pod: str
    state: str
    message: str


class Verbs(Protocol):
    """The verbs of the extender.

    Each verb raises a DraError if it cannot decide. The answer is then an error, and kube-scheduler tries the
    pod again later. If the client has closed the connection, the call is cancelled.
    """

    @property
    def notice(self) -> str:
        """Return what operators should know while the verbs work; empty if there is nothing."""

    @property
    def second_allocator(self) -> str:
        """Return the signs of another allocator for the same devices; empty if there is none."""

    def explain(self, pod: str) -> PodState:
        """Return what the extender knows about a pod (`namespace/name`)."""

    async def filter(self, pod: Pod, nodes: Sequence[str]) -> FilterResult:
        """Return on which of the nodes the pod can run."""

    async def prioritize(self, pod: Pod, nodes: Sequence[str]) -> Sequence[HostPriority]:
        """Return the scores of the nodes."""

    async def preempt(self, pod: Pod, victims: Mapping[str, MetaVictims]) -> Mapping[str, MetaVictims]:
        """Return, for each node on which evictions make the pod fit, the pods to evict."""

    async def bind(self, args: BindArgs) -> None:
        """Reserve the devices of a pod, wait until they are ready, and bind the pod."""
