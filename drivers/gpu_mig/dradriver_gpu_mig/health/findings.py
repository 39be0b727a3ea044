"""Errors of GPUs, their effect on devices, and when they end."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

import dradriver as dra
from dradriver_gpu_mig.card import Event, EventKind, GpuError, GpuLostError, GpuNotFoundError, RecoveryAction
from dradriver_gpu_mig.health.recovery_actions import RECOVERIES
from dradriver_gpu_mig.health.xids import describe_xid, get_default_effect
from dradriver_gpu_mig.instances import ProfilePlacement
from dradriver_gpu_mig.offer import DRIVER, GpuOffer
from dradriver_gpu_mig.settings import Effect, GpuSettings
from dradriver_gpu_mig.snapshot import GpuCard, NodeSnapshot

__all__ = [
    "READS_UNTIL_LOST",
    "Finding",
    "FindingSubject",
    "add_finding",
    "classify_event",
    "compute_taints",
    "count_lost_reads",
    "drop_ended",
    "find_missing_device",
    "is_lost_error",
    "make_lost_finding",
    "make_recovery_finding",
    "make_reset_finding",
    "report_health",
    "requires_scan",
]

_RECOVERY_ACTION_CHANGED: Final = 154
"""The XID by which drivers before the event of the same name report a new recovery action."""
_DEFAULT_ECC_EFFECT: Final = "NoExecute"
_SEVERITY: Final[Mapping[Effect, int]] = {"Ignore": 0, "None": 1, "NoSchedule": 2, "NoExecute": 3}


class FindingSubject(msgspec.Struct, frozen=True, rename={"instance": "place"}):
    """Subject of a finding: a GPU, or one instance of it."""

    gpu: str
    instance: ProfilePlacement | None = None

    def affects(self, offer: GpuOffer) -> bool:
        """Return whether the finding affects the device.

        Args:
            offer: the device.
        """
        if offer.card.gpu.uuid != self.gpu:
            return False
        if self.instance is None:
            return True
        profile = offer.profile.id if offer.profile else None
        return (profile, offer.placement) == (self.instance.profile, self.instance.placement)


class Finding(msgspec.Struct, frozen=True, kw_only=True, rename={"subject": "where", "reported_at": "at"}):
    """An error of a GPU or of one instance of it.

    Attributes:
        subject: the affected GPU or instance.
        key: key of the taint without the driver's domain, for example `xid`.
        value: value of the taint.
        effect: effect of the taint.
        message: text for people.
        reported_at: when the error was reported (Unix time).
        chosen: whether the operator chose the effect. Such a finding does not end because the GPU says that it
            can be used.
        needed_reset: whether the GPU reported, after the error, that it needs a reset. If the GPU no longer
            reports this, it was reset.
    """

    subject: FindingSubject
    key: str
    value: str = ""
    effect: Effect
    message: str
    reported_at: float = 0.0
    chosen: bool = False
    needed_reset: bool = False


def classify_event(event: Event, card: GpuCard | None, settings: GpuSettings, now: float) -> Finding | None:
    """Return the finding for an event, or None if the event affects no device.

    Args:
        event: the event from NVML.
        card: the GPU as it is now; None: unknown.
        settings: the operator's settings, with the effects of errors.
        now: Unix time.
    """
    subject = _find_subject(event, card)
    if subject is None:
        return None
    if event.kind is EventKind.XID and event.xid is not None:
        chosen = settings.xids.get(event.xid)
        default: Effect = get_default_effect(event.xid)
        key, value, message = "xid", str(event.xid), f"{event.gpu} reported {describe_xid(event.xid)}"
    elif event.kind is EventKind.DOUBLE_BIT_ECC:
        chosen, default = settings.double_bit_ecc, _DEFAULT_ECC_EFFECT
        key, value, message = "ecc", "", f"{event.gpu} reported an uncorrected memory error"
    else:
        return None
    effect = chosen or _limit_by_card(default, card)
    if effect == "Ignore":
        return None
    return Finding(
        subject=subject,
        key=key,
        value=value,
        effect=effect,
        message=message,
        reported_at=now,
        chosen=chosen is not None,
    )


def requires_scan(event: Event) -> bool:
    """Return whether the cards must be read after an event, even if it is no error.

    Args:
        event: the event from NVML.
    """
    kinds = {EventKind.GPU_LOST, EventKind.MIG_CHANGED, EventKind.RECOVERY_ACTION}
    return event.kind in kinds or event.xid == _RECOVERY_ACTION_CHANGED


def _limit_by_card(effect: Effect, card: GpuCard | None) -> Effect:
    """Return the effect of an error on a GPU that may report a recovery action.

    If the GPU says that it can be used, the error has no effect. If it says what must be done, this decides,
    and the error only explains it.
    """
    if card is None or card.recovery_action is None or effect == "Ignore":
        return effect
    return "Ignore" if card.recovery_action is RecoveryAction.NONE else "None"


def _find_subject(event: Event, card: GpuCard | None) -> FindingSubject | None:
    """Return the subject of an event; None if the instance was destroyed, which also ends its errors."""
    if event.gpu_instance is None or card is None:
        return FindingSubject(event.gpu)
    matching = (each.gpu_instance for each in card.instances if each.gpu_instance.id == event.gpu_instance)
    instance = next(matching, None)
    return (
        FindingSubject(event.gpu, ProfilePlacement(instance.profile_id, instance.placement))
        if instance
        else None
    )


def add_finding(findings: Iterable[Finding], new: Finding) -> list[Finding]:
    """Return the findings with a new one added. A repeated error is one finding, with its latest time.

    Args:
        findings: the present findings.
        new: the new finding.
    """
    others: list[Finding] = []
    for finding in findings:
        if (finding.subject, finding.key, finding.value) == (new.subject, new.key, new.value):
            new = msgspec.structs.replace(new, needed_reset=finding.needed_reset)
        else:
            others.append(finding)
    return [*others, new]


def make_lost_finding(gpu: str) -> Finding:
    """Return the finding for a GPU that is lost.

    Args:
        gpu: UUID of the GPU.
    """
    message = f"{gpu} is lost: it fell off the bus or needs a reset"
    return Finding(subject=FindingSubject(gpu), key="gpu-lost", effect="NoExecute", message=message)


def make_reset_finding(gpu: str) -> Finding:
    """Return the finding for a GPU whose calls fail because it needs a reset.

    Args:
        gpu: UUID of the GPU.
    """
    message = f"{gpu} needs a reset"
    return Finding(subject=FindingSubject(gpu), key="reset-required", effect="NoSchedule", message=message)


def make_recovery_finding(card: GpuCard, settings: GpuSettings) -> Finding | None:
    """Return the finding for a GPU that says what must be done before it works, or None.

    Args:
        card: the GPU.
        settings: the operator's settings.
    """
    recovery = RECOVERIES.get(card.recovery_action) if card.recovery_action is not None else None
    if recovery is None:
        return None
    gpu = card.gpu.uuid
    return Finding(
        subject=FindingSubject(gpu),
        key="recovery-action",
        value=recovery.value,
        effect=settings.recovery_actions.get(recovery.value, recovery.effect),
        message=f"{gpu} reports the recovery action {recovery.value}: {recovery.remedy}",
    )


def find_missing_device(offer: GpuOffer) -> Finding | None:
    """Return the finding for an allocated device that no longer exists, or None if the device exists.

    Args:
        offer: the device that a record names, with the present state of its GPU.
    """
    gpu = offer.card.gpu.uuid
    if offer.profile is None or offer.placement is None:
        return _make_mig_enabled_finding(gpu) if offer.card.mig_enabled else None
    instance = offer.card.find_instance_at(offer.profile.id, offer.placement)
    if instance is not None and instance.mig_devices:
        return None
    message = f"the GPU instance of {gpu} was destroyed by a reset or by another program"
    subject = FindingSubject(gpu, ProfilePlacement(offer.profile.id, offer.placement))
    return Finding(subject=subject, key="instance-gone", effect="NoExecute", message=message)


def _make_mig_enabled_finding(gpu: str) -> Finding:
    """Return the finding for a GPU that no program can use as a whole because MIG is on."""
    message = f"another program switched MIG on for {gpu}, which is allocated as a whole GPU"
    return Finding(subject=FindingSubject(gpu), key="mig-switched", effect="NoExecute", message=message)


def drop_ended(
    findings: Iterable[Finding],
    recovered: Collection[str],
    cards: Mapping[str, GpuCard],
    settings: GpuSettings,
    now: float,
) -> list[Finding]:
    """Return the findings that have not ended.

    Args:
        findings: all findings.
        recovered: UUIDs of GPUs that answer again after they were lost, which means that they were reset.
        cards: the GPUs that answer, by UUID.
        settings: the operator's settings, with the time for which an error counts if it is not repeated.
        now: Unix time.
    """
    return [
        _update_needed_reset(finding, cards.get(finding.subject.gpu))
        for finding in findings
        if finding.subject.gpu not in recovered
        and not _has_ended(finding, cards.get(finding.subject.gpu), settings, now)
    ]


def _has_ended(finding: Finding, card: GpuCard | None, settings: GpuSettings, now: float) -> bool:
    """Return whether the GPU works, the instance was destroyed, or `recover_seconds` has passed."""
    instance = finding.subject.instance
    works = card is not None and card.recovery_action is RecoveryAction.NONE
    was_reset = works and (finding.needed_reset or not finding.chosen)
    destroyed = (
        instance is not None
        and card is not None
        and card.find_instance_at(instance.profile, instance.placement) is None
    )
    recover_seconds = settings.recover_seconds
    return was_reset or destroyed or (recover_seconds > 0 and finding.reported_at + recover_seconds <= now)


def _update_needed_reset(finding: Finding, card: GpuCard | None) -> Finding:
    needed_reset = finding.needed_reset or (
        card is not None and card.recovery_action not in {None, RecoveryAction.NONE}
    )
    return msgspec.structs.replace(finding, needed_reset=needed_reset)


def compute_taints(findings: Sequence[Finding], offers: Iterable[GpuOffer]) -> dict[str, list[dra.Taint]]:
    """Return the taints of devices by device name.

    If several findings affect a device and have the same key, only the finding with the strongest effect
    becomes a taint. If several of them have the strongest effect, the newest finding becomes the taint.

    Args:
        findings: all findings.
        offers: the devices.

    Source:
        KEP-5055, taints of devices.
    """
    return {offer.name: taints for offer in offers if (taints := list(_make_taints(findings, offer)))}


def _make_taints(findings: Iterable[Finding], offer: GpuOffer) -> Iterator[dra.Taint]:
    for finding in _select_by_key(findings, offer).values():
        if finding.effect != "Ignore":
            yield dra.Taint(key=f"{DRIVER}/{finding.key}", value=finding.value, effect=finding.effect)


def _select_by_key(findings: Iterable[Finding], offer: GpuOffer) -> dict[str, Finding]:
    affecting = [finding for finding in findings if finding.subject.affects(offer)]
    ordered = sorted(affecting, key=lambda finding: (_SEVERITY[finding.effect], finding.reported_at))
    return {finding.key: finding for finding in ordered}


def report_health(
    findings: Sequence[Finding], offers: Iterable[GpuOffer], errors: Mapping[str, GpuError]
) -> list[dra.DeviceHealth]:
    """Return the health of every device for the kubelet.

    A finding without a scheduling effect leaves a device healthy.

    Args:
        findings: all findings.
        offers: the devices.
        errors: by UUID, the error of each GPU that could not be read last time. The health of its devices is
            reported as unknown.

    Source:
        KEP-4680, health of devices.
    """
    reports = []
    for offer in offers:
        messages = [
            each.message for each in _select_by_key(findings, offer).values() if _SEVERITY[each.effect] > 1
        ]
        health = dra.Health.UNHEALTHY if messages else dra.Health.HEALTHY
        error = errors.get(offer.card.gpu.uuid)
        if error is not None and not messages:
            health, messages = dra.Health.UNKNOWN, [f"its GPU cannot be read: {error}"]
        reports.append(dra.DeviceHealth(offer.name, health, "; ".join(messages)))
    return reports


READS_UNTIL_LOST: Final = 2
"""Number of consecutive reads that must find a GPU lost before it counts as lost."""


def is_lost_error(error: GpuError) -> bool:
    """Return whether an error means that the GPU is no longer present.

    Args:
        error: error of a call for the GPU.
    """
    return isinstance(error, GpuLostError | GpuNotFoundError)


def count_lost_reads(previous: Mapping[str, int], snapshot: NodeSnapshot) -> dict[str, int]:
    """Return how many consecutive reads found each GPU lost, at most `READS_UNTIL_LOST`.

    A GPU is lost when NVML reports it as lost (`GPU_IS_LOST`) or does not find it (`NOT_FOUND`) in two
    consecutive reads. No other error counts, because pods on a lost GPU are evicted and NVML returns many
    transient errors. The result has no entry for a GPU whose count is 0. The table gives the state of a GPU
    after this read.

    | this read | before: not lost | before: lost in one read | before: lost |
    |---|---|---|---|
    | the GPU answers | not lost | not lost | not lost |
    | the GPU is lost | lost in one read | lost | lost |
    | another error | not lost | not lost | lost |

    Args:
        previous: the counts after the last read, by UUID.
        snapshot: the result of this read.
    """
    counts: dict[str, int] = {}
    for uuid, error in snapshot.errors.items():
        count = previous.get(uuid, 0)
        if is_lost_error(error):
            counts[uuid] = min(count + 1, READS_UNTIL_LOST)
        elif count == READS_UNTIL_LOST:
            counts[uuid] = count
    return counts
