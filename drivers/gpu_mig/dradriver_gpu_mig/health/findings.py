"""Errors of GPUs, their effect on devices, and when they end."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

import dradriver as dra
from dradriver_gpu_mig.card import CardError, Event, EventKind
from dradriver_gpu_mig.instances import Place
from dradriver_gpu_mig.offer import DRIVER, Offer
from dradriver_gpu_mig.settings import Effect, Settings
from dradriver_gpu_mig.snapshot import Card

__all__ = [
    "Finding",
    "Where",
    "found_in",
    "gone",
    "lost",
    "reports",
    "reset_required",
    "still_true",
    "taints",
    "with_news",
]

_FAULTS_OF_PROGRAMS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that a program causes and that leave the GPU unchanged."""
_FATAL: Final = frozenset({48, 62, 64, 74, 79, 95, 119, 120, 140})
"""XIDs after which the GPU does not work until a reset: memory, micro-controllers, links, the bus."""

_ORDER: Final[Mapping[Effect, int]] = {"Ignore": 0, "None": 1, "NoSchedule": 2, "NoExecute": 3}


class Where(msgspec.Struct, frozen=True):
    """Subject of a finding: a GPU, or one place of it."""

    gpu: str
    place: Place | None = None

    def concerns(self, offer: Offer) -> bool:
        """Return whether the finding affects the device."""
        if offer.card.gpu.uuid != self.gpu:
            return False
        if self.place is None:
            return True
        profile = offer.profile.id if offer.profile else None
        return (profile, offer.placement) == (self.place.profile, self.place.placement)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An error of a GPU or of one place of it.

    Attributes:
        where: the affected GPU or place.
        key: key of the taint without the driver's domain, for example `xid`.
        value: value of the taint.
        effect: effect of the taint.
        message: text for people.
        at: when the error was reported, in seconds of the wall clock.
        needed_reset: whether the GPU was seen to need a reset since then. If it no longer needs one, it was
            reset.
    """

    where: Where
    key: str
    value: str = ""
    effect: Effect
    message: str
    at: float = 0.0
    needed_reset: bool = False


def found_in(event: Event, card: Card | None, settings: Settings, now: float) -> Finding | None:
    """Return the finding that an event means, or None if devices are not affected.

    Args:
        event: the event from NVML.
        card: the GPU as it is now; None: unknown.
        settings: the operator's effects.
        now: seconds of the wall clock.
    """
    where = _where(event, card)
    if where is None:
        return None
    if event.kind is EventKind.XID and event.xid is not None:
        effect = settings.xids.get(event.xid) or _effect_of(event.xid)
        message = f"XID {event.xid} of {event.gpu}"
        finding = Finding(where=where, key="xid", value=str(event.xid), effect=effect, message=message, at=now)
    elif event.kind is EventKind.DOUBLE_BIT_ECC:
        message = f"memory of {event.gpu} had an error that was not corrected"
        finding = Finding(where=where, key="ecc", effect=settings.double_bit_ecc, message=message, at=now)
    else:
        return None
    return None if finding.effect == "Ignore" else finding


def _effect_of(xid: int) -> Effect:
    if xid in _FAULTS_OF_PROGRAMS:
        return "Ignore"
    return "NoExecute" if xid in _FATAL else "NoSchedule"


def _where(event: Event, card: Card | None) -> Where | None:
    """Return the subject of an event, or None if the instance was destroyed since: its error ended with it."""
    if event.gpu_instance is None or card is None:
        return Where(event.gpu)
    found = (each.gpu_instance for each in card.instances if each.gpu_instance.id == event.gpu_instance)
    instance = next(found, None)
    return Where(event.gpu, Place(instance.profile_id, instance.placement)) if instance else None


def with_news(findings: Iterable[Finding], news: Finding) -> list[Finding]:
    """Return the findings with a new one. A repeated error counts once, with its latest time."""
    kept: list[Finding] = []
    for finding in findings:
        if (finding.where, finding.key, finding.value) == (news.where, news.key, news.value):
            news = msgspec.structs.replace(news, needed_reset=finding.needed_reset)
        else:
            kept.append(finding)
    return [*kept, news]


def lost(gpu: str) -> Finding:
    """Return the finding for a GPU that is no longer there."""
    message = f"{gpu} is lost: it fell off the bus, or has to be reset"
    return Finding(where=Where(gpu), key="gpu-lost", effect="NoExecute", message=message)


def reset_required(gpu: str) -> Finding:
    """Return the finding for a GPU that reports that it needs a reset, even if its error event was missed."""
    message = f"{gpu} has to be reset"
    return Finding(where=Where(gpu), key="reset-required", effect="NoSchedule", message=message)


def gone(offer: Offer) -> Finding | None:
    """Return the finding for an allocated device that no longer exists, or None if the device exists."""
    gpu = offer.card.gpu.uuid
    if offer.profile is None or offer.placement is None:
        return _divided(gpu) if offer.card.divided else None
    instance = offer.card.at(offer.profile.id, offer.placement)
    if instance is not None and instance.mig_devices:
        return None
    message = f"the instance on {gpu} was destroyed by a reset or by hand"
    where = Where(gpu, Place(offer.profile.id, offer.placement))
    return Finding(where=where, key="instance-gone", effect="NoExecute", message=message)


def _divided(gpu: str) -> Finding:
    """Return the finding for a GPU that programs can no longer use as a whole."""
    message = f"MIG was switched on by hand on {gpu}, which a claim has as a whole"
    return Finding(where=Where(gpu), key="mig-switched", effect="NoExecute", message=message)


def still_true(
    findings: Iterable[Finding],
    back: Collection[str],
    cards: Mapping[str, Card],
    settings: Settings,
    now: float,
) -> list[Finding]:
    """Return the findings that have not ended.

    Args:
        findings: all findings.
        back: UUIDs of GPUs that answer again after they were lost, which means that they were reset.
        cards: the GPUs that answer, by UUID.
        settings: how long an error counts if it is not repeated.
        now: seconds of the wall clock.
    """
    return [
        _asked(finding, cards.get(finding.where.gpu))
        for finding in findings
        if finding.where.gpu not in back and not _over(finding, cards.get(finding.where.gpu), settings, now)
    ]


def _over(finding: Finding, card: Card | None, settings: Settings, now: float) -> bool:
    """Return whether the GPU was reset, the instance was destroyed, or `recover_seconds` has passed."""
    place = finding.where.place
    was_reset = finding.needed_reset and card is not None and card.needs_reset is False
    destroyed = place is not None and card is not None and card.at(place.profile, place.placement) is None
    patience = settings.recover_seconds
    return was_reset or destroyed or (patience > 0 and finding.at + patience <= now)


def _asked(finding: Finding, card: Card | None) -> Finding:
    needed = finding.needed_reset or (card is not None and card.needs_reset is True)
    return msgspec.structs.replace(finding, needed_reset=needed)


def taints(findings: Sequence[Finding], offers: Iterable[Offer]) -> dict[str, list[dra.Taint]]:
    """Return the taints of devices by device name.

    Of findings with the same key, only the one with the strongest effect is used, and of these the newest.
    """
    return {offer.name: marks for offer in offers if (marks := list(_marks(findings, offer)))}


def _marks(findings: Iterable[Finding], offer: Offer) -> Iterator[dra.Taint]:
    for finding in _of(findings, offer).values():
        if finding.effect != "Ignore":
            yield dra.Taint(key=f"{DRIVER}/{finding.key}", value=finding.value, effect=finding.effect)


def _of(findings: Iterable[Finding], offer: Offer) -> dict[str, Finding]:
    concerned = [finding for finding in findings if finding.where.concerns(offer)]
    ordered = sorted(concerned, key=lambda finding: (_ORDER[finding.effect], finding.at))
    return {finding.key: finding for finding in ordered}


def reports(
    findings: Sequence[Finding], offers: Iterable[Offer], refusals: Mapping[str, CardError]
) -> list[dra.DeviceHealth]:
    """Return the health of every device for the kubelet.

    A finding without a scheduling effect leaves a device healthy.

    Args:
        findings: all findings.
        offers: the devices.
        refusals: by UUID, why a GPU could not be read last time. The health of its devices is unknown.
    """
    told = []
    for offer in offers:
        messages = [each.message for each in _of(findings, offer).values() if _ORDER[each.effect] > 1]
        health = dra.Health.UNHEALTHY if messages else dra.Health.HEALTHY
        refusal = refusals.get(offer.card.gpu.uuid)
        if refusal is not None and not messages:
            health, messages = dra.Health.UNKNOWN, [f"its GPU can't be looked at: {refusal}"]
        told.append(dra.DeviceHealth(offer.name, health, "; ".join(messages)))
    return told
