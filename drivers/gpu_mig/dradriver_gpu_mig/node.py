"""The cards of a node with their devices and their health. The cards are opened once and read repeatedly."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.card import Event, EventKind, GpuCards, GpuError, GpuHardware, ResetRequiredError, System
from dradriver_gpu_mig.health import (
    READS_UNTIL_LOST,
    Finding,
    add_finding,
    classify_event,
    compute_taints,
    count_lost_reads,
    drop_ended,
    find_missing_device,
    is_lost_error,
    make_lost_finding,
    make_recovery_finding,
    make_reset_finding,
    read_findings,
    report_health,
    requires_scan,
    write_findings,
)
from dradriver_gpu_mig.host.kernel_log import follow_xids
from dradriver_gpu_mig.instances import (
    DeviceRecord,
    InstanceReconciler,
    ProfilePlacement,
    RecordState,
    RecordStore,
)
from dradriver_gpu_mig.mps import MpsDaemons, MpsDaemonStore, MpsFolders, MpsHost
from dradriver_gpu_mig.offer import (
    GpuDeviceKind,
    GpuOffer,
    PoolFacts,
    VfioFacts,
    build_pool,
    find_ambiguous_profiles,
    find_offer,
    limit_mode,
    list_offers,
)
from dradriver_gpu_mig.passthrough import PassthroughBinder, PciBus, has_iommufd
from dradriver_gpu_mig.scan import scan_node
from dradriver_gpu_mig.settings import GpuSettings, Mode
from dradriver_gpu_mig.snapshot import GpuCard, MigInstance, NodeSnapshot, read_device, read_gpu

__all__ = ["GpuNode"]

_log: Final = logging.getLogger(__name__)


class GpuNode:
    """The GPUs of one node: `async with GpuNode(...)`.

    Args:
        hardware: the cards.
        settings: the operator's settings.
        mode: kind of devices that the node offers.
        folder: folder of the records and the findings.
        boot: ID of the boot.
        pci: the PCI functions.
        mps_host: starts and stops MPS control daemons.
        kernel_log: `/dev/kmsg`, from which errors are read while NVML is closed; None: NVML stays open, and
            reports events itself.
    """

    def __init__(
        self,
        hardware: GpuHardware,
        settings: GpuSettings,
        mode: Mode,
        folder: Path,
        boot: str,
        pci: PciBus,
        mps_host: MpsHost,
        kernel_log: Path | None = None,
    ) -> None:
        self.cards = GpuCards(hardware, seconds=settings.call_seconds, keeps_open=kernel_log is None)
        self._kernel_log = kernel_log
        self.record_store = RecordStore(folder / "devices", boot)
        self.reconciler = InstanceReconciler(self.cards, self.record_store)
        self.settings = settings
        self.pci = pci
        self.binder = PassthroughBinder(self.cards, self.record_store, pci, Path(settings.host.proc))
        mps_folder = folder / "mps"
        self.mps = MpsDaemons(MpsDaemonStore(mps_folder), mps_host, MpsFolders(mps_folder))
        self._mps_recovery: asyncio.Task[None] | None = None
        self._vfio_facts: dict[str, VfioFacts] = {}
        self._mode = mode
        self._findings_path, self._boot = folder / "findings.json", boot
        self._findings: list[Finding] = []
        self._missing_devices: list[Finding] = []
        self._known_cards: dict[str, GpuCard] = {}
        self._system: System | None = None
        self._offers_by_name: dict[str, GpuOffer] = {}
        self._lost_reads: dict[str, int] = {}
        self._read_errors: Mapping[str, GpuError] = {}
        self._write_lock = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "GpuNode":
        self._findings = await asyncio.to_thread(read_findings, self._findings_path, self._boot)
        await self._stack.enter_async_context(self.cards)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._mps_recovery is not None:
            self._mps_recovery.cancel()
            await asyncio.gather(self._mps_recovery, return_exceptions=True)
        await self._stack.aclose()

    async def find(self, device: str) -> GpuOffer | None:
        """Return the device with this name if the node can offer it now, else None.

        Of a device of the last discovery, only the GPU is read, and none of its other devices. For any other
        name, all cards are read: the device may be new.

        Raises:
            GpuError: the device's GPU exists but cannot be read.
        """
        passed = await self._read_passed()
        known = {uuid: card for uuid, card in self._known_cards.items() if uuid not in passed}
        offered = self._offers_by_name.get(device)
        if offered is not None and (card := passed.get(offered.card.gpu.uuid)) is not None:
            return replace(offered, card=card) if offered.kind is GpuDeviceKind.VFIO else None
        if offered is None:
            snapshot = await scan_node(self.cards, known, self._system)
            cards = list(snapshot.cards.values())
        else:
            try:
                gpu = offered.card.gpu.uuid
                cards = [await self.cards.call_gpu(gpu, lambda hardware: _read_offer(hardware, offered, known))]
            except GpuError as error:
                if is_lost_error(error):
                    return None
                raise
        offers = (offer for card in cards for offer in self._list_offers(card))
        return next((offer for offer in offers if offer.name == device), None)

    async def read_system(self) -> System:
        """Return the installed driver, as it was last read. A new driver is noticed by the next discovery.

        Raises:
            GpuError: the driver was never read, and does not answer.
        """
        if self._system is None:
            self._system = await self.cards.call(lambda hardware: hardware.system())
        return self._system

    async def discover(self) -> dra.Pool:
        """Repair what is incomplete or dead, read all cards, and return the present pool of devices."""
        await self.reconciler.recover()
        await self.binder.recover()
        self._start_mps_recovery()
        before = await asyncio.to_thread(self.record_store.all)
        # NVML does not know a GPU that is passed to a virtual machine. Such a GPU is not lost.
        passed = await self._read_passed()
        known = {uuid: card for uuid, card in self._known_cards.items() if uuid not in passed}
        snapshot = await scan_node(self.cards, known, self._system)
        self._system = snapshot.system
        after = await asyncio.to_thread(self.record_store.all)
        await self._apply_snapshot(snapshot)
        self._known_cards |= {uuid: card for uuid, card in passed.items() if uuid not in snapshot.cards}
        self._vfio_facts = await asyncio.to_thread(self._read_vfio_facts)
        # If a record was added or removed during the read, its instance counts neither as foreign nor as
        # missing.
        recorded = {(each.gpu, each.instance) for each in (*before, *after)}
        foreign = {
            uuid: [i.gpu_instance for i in card.instances if (uuid, _to_profile_placement(i)) not in recorded]
            for uuid, card in self._known_cards.items()
        }
        offers = [offer for card in self._known_cards.values() for offer in self._list_offers(card)]
        missing = list(self._find_missing_devices([record for record in after if record in before], snapshot))
        self._missing_devices = [finding for _, finding in missing]
        self._offers_by_name = {offer.name: offer for offer in offers}
        for offer, _ in missing:
            self._offers_by_name.setdefault(offer.name, offer)
        by_gpu: dict[str, list[GpuOffer]] = defaultdict(list)
        for offer in self._offers_by_name.values():
            by_gpu[offer.card.gpu.uuid].append(offer)
        held = {record.device for record in await asyncio.to_thread(self.record_store.held)}
        facts = PoolFacts(compute_taints(self._list_findings(), self._offers_by_name.values()), foreign, held)
        return build_pool(by_gpu, snapshot.system, facts, self.settings.consumable_shares)

    def _start_mps_recovery(self) -> None:
        """Recover MPS daemons beside the discovery, which must not wait for one that hangs."""
        if self._mps_recovery is None or self._mps_recovery.done():
            self._mps_recovery = asyncio.create_task(self._recover_mps(), name="recovery of MPS daemons")

    async def _recover_mps(self) -> None:
        try:
            records = await asyncio.to_thread(self.record_store.all)
            await self.mps.recover({claim for record in records for claim in record.claims})
        except dra.DraError as error:
            _log.warning("MPS daemons cannot be recovered now: %s", error)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of the GPUs from now on.

        Raises:
            NotSupportedError: no GPU of the node supports events.
            OSError: the kernel's log cannot be read.
        """
        if self._kernel_log is None:
            async with aclosing(self.cards.events()) as events:
                async for event in events:
                    yield event
            return
        async with aclosing(follow_xids(self._kernel_log)) as errors:
            async for error in errors:
                for gpu in self._find_gpus_at(error.pci_address):
                    yield Event(EventKind.XID, gpu, error.xid, error.gpu_instance)

    def _find_gpus_at(self, address: str) -> list[str]:
        """Return the UUID of the GPU at an address without its function; empty if none is known."""
        cards = self._known_cards.items()
        return [uuid for uuid, card in cards if card.gpu.pci_address.partition(".")[0].endswith(address)]

    async def handle_event(self, event: Event) -> bool:
        """Record the finding for an event.

        Returns:
            Whether the devices must be discovered again. False for XIDs that programs cause, because there may
            be hundreds of these XIDs.
        """
        now = time.time()
        is_error = classify_event(event, None, self.settings, now) is not None
        if is_error or requires_scan(event):
            await self._update_recovery_action(event.gpu)
        if not is_error:
            return requires_scan(event)
        finding = classify_event(event, await self._read_card_of(event), self.settings, now)
        if finding is not None:
            _log.warning("%s: taint %s, effect %s", finding.message, finding.key, finding.effect)
            await self._store_findings(add_finding(self._findings, finding))
        return finding is not None

    async def _update_recovery_action(self, gpu: str) -> None:
        """Read the recovery action of a GPU. The kubelet then learns it before the next discovery."""
        if gpu not in self._known_cards:
            return
        try:
            action = await self.cards.call_gpu(gpu, lambda hardware: hardware.recovery_action(gpu))
        except GpuError:
            return  # the next read logs the error
        if action is not None:
            self._known_cards = {
                **self._known_cards,
                gpu: replace(self._known_cards[gpu], recovery_action=action),
            }

    async def _read_card_of(self, event: Event) -> GpuCard | None:
        """Return the GPU of an event.

        If the event is an error of an instance, the whole GPU is read, because the instance may be newer than
        the last read.
        """
        known = self._known_cards.get(event.gpu)
        if known is None or event.gpu_instance is None:
            return known
        try:
            return await self.cards.call_gpu(event.gpu, lambda hardware: read_gpu(hardware, known.gpu, known))
        except GpuError:
            return known  # the next read logs the error

    def report_health(self) -> Sequence[dra.DeviceHealth]:
        """Return the health of every device of the last discovery."""
        return report_health(self._list_findings(), self._offers_by_name.values(), self._read_errors)

    @property
    def has_unconfirmed_loss(self) -> bool:
        """Whether a read found a GPU lost, and another read must confirm the loss."""
        return any(count < READS_UNTIL_LOST for count in self._lost_reads.values())

    def _find_missing_devices(
        self, records: Iterable[DeviceRecord], snapshot: NodeSnapshot
    ) -> Iterator[tuple[GpuOffer, Finding]]:
        """Yield allocated devices that no longer exist.

        These devices stay published, so that their taint is visible.
        """
        for record in records:
            card = snapshot.cards.get(record.gpu)
            if card is not None and record.state is RecordState.READY:
                offer = find_offer(card, self._mode, record.device)
                if offer is not None and (finding := find_missing_device(offer)) is not None:
                    yield offer, finding

    def _list_offers(self, card: GpuCard) -> list[GpuOffer]:
        return list_offers(card, self._mode, self.settings.mig_switching, self._vfio_facts.get(card.gpu.uuid))

    async def _read_passed(self) -> dict[str, GpuCard]:
        """Return the GPUs that are passed to virtual machines, as they were before."""
        records = await asyncio.to_thread(self.record_store.all)
        return {
            record.gpu: GpuCard(record.passed.gpu, record.passed.profiles)
            for record in records
            if record.passed is not None
        }

    def _read_vfio_facts(self) -> dict[str, VfioFacts]:
        """Return the PCI functions of the GPUs that have an IOMMU group; none if passthrough is off."""
        if not self.settings.passthrough:
            return {}
        found = {}
        for uuid, card in self._known_cards.items():
            address = card.gpu.pci_address
            if self.pci.read_group(address) is not None:
                vendor, device = self.pci.read_ids(address)
                memory = self.pci.read_addressable_memory(address)
                found[uuid] = VfioFacts(vendor, device, memory, has_iommufd(Path(self.settings.host.dev)))
        return found

    def _list_findings(self) -> list[Finding]:
        need_reset = {
            uuid for uuid, error in self._read_errors.items() if isinstance(error, ResetRequiredError)
        }
        recoveries = (make_recovery_finding(card, self.settings) for card in self._known_cards.values())
        return [
            *self._findings,
            *self._missing_devices,
            *filter(None, recoveries),
            *map(make_reset_finding, sorted(need_reset)),
            *map(make_lost_finding, self._lost_gpus),
        ]

    @property
    def _lost_gpus(self) -> list[str]:
        return sorted(gpu for gpu, count in self._lost_reads.items() if count == READS_UNTIL_LOST)

    async def _apply_snapshot(self, snapshot: NodeSnapshot) -> None:
        """Use a new snapshot.

        If a GPU does not answer, it stays published unchanged; a lost GPU gets a taint.
        """
        before = self._lost_gpus
        self._lost_reads = count_lost_reads(self._lost_reads, snapshot)
        self._log_changes(snapshot)
        for gpu in self._lost_gpus:
            if gpu not in before:
                _log.error("%s is lost", gpu)
        recovered = set(before).difference(self._lost_gpus)
        for gpu in sorted(recovered):
            _log.warning("%s is back, its findings are removed", gpu)
        self._known_cards = {**self._known_cards, **snapshot.cards}
        await self._store_findings(
            drop_ended(self._findings, recovered, snapshot.cards, self.settings, time.time())
        )

    def _log_changes(self, snapshot: NodeSnapshot) -> None:
        """Log each change once: GPUs that no longer answer, and GPUs that answer again."""
        for gpu, error in snapshot.errors.items():
            previous = self._read_errors.get(gpu)
            if previous is None or (type(previous), previous.code) != (type(error), error.code):
                _log.warning("%s cannot be read, its devices stay as they are: %s", gpu, error)
        for gpu in sorted(self._read_errors.keys() & snapshot.cards.keys()):
            _log.warning("%s answers again", gpu)
        self._read_errors = snapshot.errors
        for gpu, card in snapshot.cards.items():
            if gpu not in self._known_cards and limit_mode(card.gpu, self._mode) is not self._mode:
                _log.warning(
                    "%s: its virtualization mode is %s: %s",
                    gpu,
                    card.gpu.virtualization.name,
                    "only existing MIG devices are offered"
                    if limit_mode(card.gpu, self._mode)
                    else "it is not offered, because it serves virtual machines",
                )
            if card.profiles == (self._known_cards[gpu].profiles if gpu in self._known_cards else ()):
                continue
            for label, numbers in find_ambiguous_profiles(card).items():
                ids = ", ".join(map(str, numbers))
                _log.error(
                    "%s: profiles %s are not offered: their devices would have the same name %s",
                    gpu,
                    ids,
                    label,
                )

    async def _store_findings(self, findings: list[Finding]) -> None:
        if findings != self._findings:
            self._findings = findings
            async with self._write_lock:  # writes the newest findings, never older ones
                await asyncio.to_thread(write_findings, self._findings_path, self._boot, self._findings)


def _read_offer(hardware: GpuHardware, offer: GpuOffer, known: Mapping[str, GpuCard]) -> GpuCard:
    card = known.get(offer.card.gpu.uuid, offer.card)
    return read_device(hardware, card, offer.profile, offer.placement)


def _to_profile_placement(instance: MigInstance) -> ProfilePlacement:
    return ProfilePlacement(instance.gpu_instance.profile_id, instance.gpu_instance.placement)
