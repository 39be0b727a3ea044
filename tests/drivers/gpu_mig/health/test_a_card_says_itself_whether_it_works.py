"""The recovery action of a GPU decides about its taints; the number of an error only explains them."""

from dataclasses import replace

import pytest

from dradriver_gpu_mig.card import Event, EventKind, RecoveryAction
from dradriver_gpu_mig.card.simulator import SimulatedGpus
from dradriver_gpu_mig.health import (
    FindingSubject,
    classify_event,
    compute_taints,
    drop_ended,
    make_recovery_finding,
    requires_scan,
)
from dradriver_gpu_mig.health.recovery_actions import RECOVERIES
from dradriver_gpu_mig.health.xids import XIDS, XidResolution
from dradriver_gpu_mig.offer import list_offers
from dradriver_gpu_mig.settings import GpuSettings, MigSwitching, Mode, read_settings
from dradriver_gpu_mig.snapshot import GpuCard
from tests.drivers.gpu_mig.mig_devices import read_cards

_NONE, _RESET = RecoveryAction.NONE, RecoveryAction.GPU_RESET


@pytest.fixture
def card() -> GpuCard:
    hardware = SimulatedGpus()
    hardware.open()
    (card,) = read_cards(hardware).values()
    return card


def _xid(card: GpuCard, number: int) -> Event:
    return Event(EventKind.XID, card.gpu.uuid, number)


def _taints(card: GpuCard, settings: GpuSettings, *, xid: int | None = None) -> set[tuple[str, str, str]]:
    findings = [make_recovery_finding(card, settings)]
    if xid is not None:
        findings.append(classify_event(_xid(card, xid), card, settings, 0))
    offers = list_offers(card, Mode.DYNAMIC, MigSwitching.NEVER)
    found = compute_taints([each for each in findings if each], offers)
    return {
        (taint.key.partition("/")[2], taint.value, taint.effect) for each in found.values() for taint in each
    }


@pytest.mark.parametrize(
    ("action", "taints"),
    [
        (RecoveryAction.NONE, set()),
        (RecoveryAction.GPU_RESET, {("recovery-action", "gpu-reset", "NoExecute")}),
        (RecoveryAction.NODE_REBOOT, {("recovery-action", "node-reboot", "NoExecute")}),
        (RecoveryAction.DRAIN_P2P, {("recovery-action", "drain-p2p", "NoSchedule")}),
        (RecoveryAction.DRAIN_AND_RESET, {("recovery-action", "drain-and-reset", "NoSchedule")}),
        (RecoveryAction.RECOVER_IMEX_DOMAIN, {("recovery-action", "recover-imex-domain", "None")}),
        (RecoveryAction.BUS_RESET, {("recovery-action", "bus-reset", "NoExecute")}),
        (RecoveryAction.SYSTEM_REBOOT, {("recovery-action", "system-reboot", "NoExecute")}),
        (RecoveryAction.UNKNOWN, {("recovery-action", "unknown", "NoSchedule")}),
        (None, set()),
    ],
)
def test_each_recovery_action_has_its_own_taint(
    card: GpuCard, action: RecoveryAction | None, taints: set[tuple[str, str, str]]
) -> None:
    assert _taints(replace(card, recovery_action=action), GpuSettings()) == taints


def test_every_recovery_action_but_none_has_an_effect_and_a_remedy() -> None:
    assert RECOVERIES.keys() == {*RecoveryAction} - {RecoveryAction.NONE}
    assert len({recovery.value for recovery in RECOVERIES.values()}) == len(RECOVERIES)


def test_the_operator_chooses_another_effect_of_a_recovery_action(card: GpuCard) -> None:
    settings = read_settings("recoveryActions: {gpu-reset: NoSchedule}", "node")
    found = _taints(replace(card, recovery_action=_RESET), settings)
    assert found == {("recovery-action", "gpu-reset", "NoSchedule")}


@pytest.mark.parametrize("xid", [48, 79, 95, 119, 999])
def test_an_error_taints_nothing_if_the_card_says_that_it_can_be_used(card: GpuCard, xid: int) -> None:
    assert _taints(replace(card, recovery_action=_NONE), GpuSettings(), xid=xid) == set()


def test_an_error_evicts_no_pod_that_the_card_lets_finish(card: GpuCard) -> None:
    drained = replace(card, recovery_action=RecoveryAction.DRAIN_AND_RESET)
    assert _taints(drained, GpuSettings(), xid=95) == {
        ("recovery-action", "drain-and-reset", "NoSchedule"),
        ("xid", "95", "None"),
    }


def test_an_error_ends_as_soon_as_the_card_says_that_it_can_be_used(card: GpuCard) -> None:
    broken = replace(card, recovery_action=_RESET)
    finding = classify_event(_xid(card, 95), broken, GpuSettings(), 0)
    assert finding is not None
    assert drop_ended([finding], set(), {card.gpu.uuid: broken}, GpuSettings(), 1)
    works = replace(card, recovery_action=_NONE)
    assert drop_ended([finding], set(), {card.gpu.uuid: works}, GpuSettings(), 2) == []


def test_a_memory_error_follows_the_word_of_the_card_too(card: GpuCard) -> None:
    event = Event(EventKind.DOUBLE_BIT_ECC, card.gpu.uuid)
    effects = [
        finding.effect if (finding := classify_event(event, each, GpuSettings(), 0)) else ""
        for each in (replace(card, recovery_action=action) for action in (None, _NONE, _RESET))
    ]
    assert effects == ["NoExecute", "", "None"]


def test_a_changed_recovery_action_is_read_at_once(card: GpuCard) -> None:
    assert requires_scan(Event(EventKind.RECOVERY_ACTION, card.gpu.uuid))
    assert requires_scan(_xid(card, 154))
    assert not requires_scan(_xid(card, 13))


def test_the_message_of_an_error_names_it_and_the_remedy(card: GpuCard) -> None:
    finding = classify_event(_xid(card, 95), replace(card, recovery_action=None), GpuSettings(), 0)
    assert finding is not None
    assert finding.subject == FindingSubject(card.gpu.uuid)
    assert finding.message.endswith("reported XID 95 (UNCONTAINED_ERROR): reset the GPU")


def test_the_xids_that_nvidia_ignores_on_kubernetes_are_ignored() -> None:
    harmless = {XidResolution.IGNORE, XidResolution.RESTART_APP}
    assert all(XIDS[number].resolution in harmless for number in (13, 31, 43, 45, 68, 109))
