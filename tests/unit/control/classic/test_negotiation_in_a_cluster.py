"""The control plane negotiates with controllers through an API server."""

from contextlib import AsyncExitStack

from msgspec.structs import replace

from dradriver.control.controllers import Controllers
from dradriver.kube import CLASSES, CRDS, PODS, SCHEDULING_CONTEXTS
from dradriver.kube.definitions import install_definitions
from dradriver.model.core.workload import Pod
from dradriver.testing import builders
from tests.unit.control.classic.conftest import A, B, ClassicLab
from tests.unit.control.conftest import Lab


def condition(pod: Pod) -> str:
    return next((c.message for c in pod.status.conditions if c.type == "PodScheduled"), "")


async def test_a_pod_with_one_claim_is_bound_and_its_context_is_deleted(classic: ClassicLab) -> None:
    await classic.start()
    await classic.start_controllers()
    await classic.pod("pod-1", A)
    await classic.lab.until_bound(1)
    await classic.until_context(lambda contexts: not contexts)
    claim = classic.lab.seen.claims.items["default/pod-1-0"]
    assert claim.metadata.finalizers == [f"{A}/deletion-protection"]
    assert len(claim.status.reserved_for) == 1


async def test_two_drivers_that_disagree_and_a_structured_claim_in_one_pod(classic: ClassicLab) -> None:
    await classic.start()
    await classic.start_controllers()
    classic.a.unsuitable = {"node-1"}
    await classic.pod("pod-1", A, B, builders.CLASS)
    await classic.lab.until_bound(1)
    assert classic.lab.seen.pods.items["default/pod-1"].spec.node_name == "node-2"
    for number in range(3):
        assert classic.lab.seen.claims.items[f"default/pod-1-{number}"].allocation is not None


async def test_a_driver_that_is_away_is_named_in_the_pods_condition_until_it_is_back(
    classic: ClassicLab,
) -> None:
    classic.a.is_away = True
    await classic.start()
    await classic.start_controllers()
    await classic.pod("pod-1", A)
    wanted = f"waiting for resource driver to allocate resource: driver {A} for resourceclaim default/pod-1-0"
    await classic.lab.until(
        lambda pods, _: "default/pod-1" in pods and condition(pods["default/pod-1"]).startswith(wanted)
    )
    classic.a.is_away = False
    classic.a.wake()
    await classic.lab.until_bound(1)


async def test_a_refused_node_costs_no_backoff_and_the_next_node_is_selected(classic: ClassicLab) -> None:
    classic.a.unsuitable = {"node-1"}
    await classic.start()
    controllers = await classic.start_controllers()
    await classic.pod("pod-1", A)
    await classic.lab.until_bound(1)
    assert classic.lab.seen.pods.items["default/pod-1"].spec.node_name == "node-2"
    assert controllers._scheduler._attempts.remaining_backoff("default/pod-1") <= 0


async def test_a_pod_with_a_node_and_an_unallocated_claim_gets_a_context_with_only_the_selected_node(
    classic: ClassicLab,
) -> None:
    classic.a.is_away = True
    await classic.start()
    await classic.start_controllers()
    await classic.pod("pod-1", A, node_name="node-2")
    await classic.until_context(lambda contexts: "default/pod-1" in contexts)
    spec = classic.contexts.items["default/pod-1"].spec
    assert (spec.selected_node, spec.potential_nodes) == ("node-2", [])
    classic.a.is_away = False
    classic.a.unsuitable = {"node-2"}
    classic.a.wake()
    await classic.until_context(lambda contexts: not contexts)


async def test_a_claim_that_is_created_after_its_pod_was_bound_is_allocated_and_reserved(
    classic: ClassicLab,
) -> None:
    await classic.start()
    await classic.start_controllers()
    await classic.lab.pods(builders.pod("pod-1-0", name="pod-1", node_name="node-2"))
    await classic.lab.until(lambda pods, _: "default/pod-1" in pods)
    await classic.claims("pod-1", A)
    await classic.lab.until(
        lambda _, claims: "default/pod-1-0" in claims and bool(claims["default/pod-1-0"].status.reserved_for)
    )
    await classic.until_context(lambda contexts: not contexts)


async def test_a_second_bound_pod_gets_a_claim_that_is_not_shareable_when_the_first_has_ended(
    classic: ClassicLab,
) -> None:
    await classic.start()
    await classic.start_controllers()
    await classic.pod("pod-1", A)
    await classic.lab.until_bound(1)
    await classic.lab.pods(builders.pod("pod-1-0", name="second", node_name="node-2"))
    await classic.until_context(lambda contexts: not contexts)
    await classic.lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
    await classic.lab.until(
        lambda _, claims: [u.name for u in claims["default/pod-1-0"].status.reserved_for] == ["second"]
    )


async def test_the_context_of_a_replaced_pod_of_the_same_name_is_deleted(classic: ClassicLab) -> None:
    classic.a.is_away = True
    await classic.start()
    await classic.start_controllers()
    await classic.pod("pod-1", A)
    await classic.until_context(lambda contexts: "default/pod-1" in contexts)
    first = classic.contexts.items["default/pod-1"].metadata.uid
    await classic.lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
    await classic.lab.pods(builders.pod("pod-1-0", name="pod-1"))
    await classic.until_context(
        lambda contexts: "default/pod-1" in contexts and contexts["default/pod-1"].metadata.uid != first
    )
    classic.a.is_away = False
    classic.a.wake()
    await classic.lab.until_bound(1)


async def test_the_next_process_continues_the_negotiation(classic: ClassicLab) -> None:
    classic.b.is_away = True
    await classic.start()
    async with Controllers(classic.lab.client):
        await classic.pod("pod-1", A, B)
        await classic.until_context(
            lambda contexts: "default/pod-1" in contexts and contexts["default/pod-1"].status.resource_claims
        )
    classic.b.is_away = False
    classic.b.wake()
    await classic.start_controllers()
    await classic.lab.until_bound(1)


async def test_without_the_definition_a_classic_claim_has_a_clear_reason_and_works_when_it_is_installed(
    lab: Lab,
) -> None:
    async with AsyncExitStack() as stack:
        classic = ClassicLab(lab, stack)
        controllers = await classic.start_controllers()
        await lab.client.create(CLASSES, builders.controller_class(A, controller=A), into=dict)
        await classic.pod("pod-1", A)
        reason = f"the API server does not serve podschedulingcontexts.{SCHEDULING_CONTEXTS.group}"
        await lab.until(lambda pods, _: "default/pod-1" in pods and reason in condition(pods["default/pod-1"]))
        assert controllers.caches.contexts.problem is None, "nothing is watched"
        await install_definitions(lab.client)
        await classic.start(drivers=False)
        await classic.until_context(lambda contexts: "default/pod-1" in contexts)


async def test_a_definition_that_is_removed_with_live_claims_is_the_reason_until_it_is_installed_again(
    classic: ClassicLab,
) -> None:
    classic.a.is_away = True
    await classic.start()
    await classic.start_controllers()
    await classic.pod("pod-1", A)
    await classic.until_context(lambda contexts: "default/pod-1" in contexts)
    name = f"{SCHEDULING_CONTEXTS.plural}.{SCHEDULING_CONTEXTS.group}"
    await classic.lab.client.delete(CRDS, name)
    await classic.lab.until(lambda pods, _: f"does not serve {name}" in condition(pods["default/pod-1"]))
    await install_definitions(classic.lab.client)
    classic.a.is_away = False
    await classic.until_context(lambda contexts: "default/pod-1" in contexts)
    classic.a.wake()
    await classic.lab.until_bound(1)


async def test_a_wrong_class_is_the_reason_until_it_is_corrected(classic: ClassicLab) -> None:
    await classic.start()
    await classic.start_controllers()
    wrong = builders.controller_class("wrong.example.com", controller=A)
    wrong = replace(wrong, spec=replace(wrong.spec, selectors=[]))
    await classic.lab.client.create(CLASSES, wrong, into=dict)
    await classic.pod("pod-1", "wrong.example.com")
    await classic.lab.until(
        lambda pods, _: "default/pod-1" in pods and "spec.selectors" in condition(pods["default/pod-1"])
    )
    assert classic.lab.seen.claims.items["default/pod-1-0"].allocation is None
