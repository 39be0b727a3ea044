"""An Event names the controllers of classic classes that have never answered on this cluster.

Source: KEP-5007, "Rollout, Upgrade and Rollback Planning": the controller is not installed.
"""

from datetime import timedelta

from dradriver.control.settings import SchedulerSettings
from dradriver.kube import CLAIMS, CLASSES, EVENTS, PODS, PatchKind
from dradriver.testing import builders
from tests.unit.control.classic.conftest import A, ClassicLab
from tests.unit.control.events import Event, wait_for_event

ABSENT, CLASS = "license.example.com", "licenses"
SETTINGS = SchedulerSettings(binding_timeout=timedelta(seconds=2))
MESSAGE = (
    f"controllers that have never answered on this cluster: {ABSENT} (class {CLASS}); "
    "check that they run, and read the Events of the claims"
)


async def start(classic: ClassicLab, *, drivers: bool = False) -> None:
    """Start the control plane, with a class whose controller was never installed."""
    await classic.start(drivers=drivers)
    absent = builders.controller_class(CLASS, controller=ABSENT)
    await classic.lab.client.create(CLASSES, absent, into=dict)
    await classic.start_controllers(SETTINGS)


async def reports(classic: ClassicLab, pod: str) -> list[Event]:
    """Return the Events about silent controllers of a pod."""
    listing = await classic.lab.client.list(EVENTS, "default", into=Event)
    return [
        each
        for each in listing.items
        if (each.reason, each.involved_object.name) == ("ControllerNeverAnswered", pod)
    ]


async def test_one_event_of_the_pod_names_the_controller_and_the_class(classic: ClassicLab) -> None:
    await start(classic)
    await classic.pod("pod-1", CLASS, CLASS)
    event = await wait_for_event(classic.lab.client, MESSAGE)
    involved = event.involved_object
    assert (involved.kind, involved.name, event.type) == ("Pod", "pod-1", "Warning")
    assert event.source["component"] == "default-scheduler"


async def test_the_event_is_written_once_although_the_pod_changes(classic: ClassicLab) -> None:
    await start(classic)
    await classic.pod("pod-1", CLASS)
    await wait_for_event(classic.lab.client, MESSAGE)
    change = {"metadata": {"labels": {"changed": "yes"}}}
    await classic.lab.client.patch(PODS, "pod-1", "default", change, PatchKind.MERGE, into=dict)
    await classic.pod("pod-2", CLASS)
    while not await reports(classic, "pod-2"):
        pass
    (event,) = await reports(classic, "pod-1")
    assert event.count == 1


async def test_an_immediate_claim_counts_too(classic: ClassicLab) -> None:
    await start(classic)
    mode = builders.controller_claim("Immediate")
    claim = builders.claim(builders.device_request(CLASS), name="claim-1", configs=[mode])
    await classic.lab.client.create(CLAIMS, claim, "default", into=dict)
    await classic.lab.pods(builders.pod("claim-1", name="pod-1"))
    await wait_for_event(classic.lab.client, MESSAGE)


async def test_a_claim_that_is_created_after_its_pod_counts_too(classic: ClassicLab) -> None:
    await start(classic)
    await classic.lab.pods(builders.pod("pod-1-0", name="pod-1"))
    await classic.lab.until(lambda pods, _: bool(pods) and bool(pods["default/pod-1"].status.conditions))
    await classic.claims("pod-1", CLASS)
    await wait_for_event(classic.lab.client, MESSAGE)


async def test_a_controller_that_has_answered_is_not_named_while_it_is_away(classic: ClassicLab) -> None:
    await start(classic, drivers=True)
    await classic.pod("pod-1", A)
    await classic.lab.until_bound(1)
    classic.a.is_away = True
    await classic.pod("pod-2", A, CLASS)
    await wait_for_event(classic.lab.client, MESSAGE)
