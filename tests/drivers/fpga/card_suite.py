"""Contract of cards: for the simulator, a kernel below a folder, umockdev, and the kernel's own core."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from dradriver_fpga.card import (
    BLANK_ID,
    Bitstream,
    BusyError,
    CardGoneError,
    CardKind,
    FaultKind,
    FpgaCard,
    FpgaError,
    FpgaHardware,
    FpgaNotSupportedError,
    IncompatibleError,
    ManagerFailedError,
    ManagerState,
    ProgrammingTimedOutError,
    Region,
    TargetNotFoundError,
    TooLargeError,
    UnreadableBitstreamError,
    WrongDigestError,
    find_faults,
)
from dradriver_fpga.card.simulator import CATALOG
from tests.drivers.fpga.bitstream_files import AFU, Bitstreams, make_gbs, xclbin

ERRORS = [state for state in ManagerState if state.is_error]
OTHER_AFU = "f00d" * 8
PLACES = {
    "pac": ("0000:3b:00.0", "0000:3d:00.0"),
    "zynq": ("axi/f8007000.devcfg", "axi/f8007000.devcfg.1"),
    "alveo": ("0000:af:00.1", "0000:b1:00.1"),
    "u55c": ("0000:41:00.1", "0000:43:00.1"),
    "u200": ("0000:61:00.1", "0000:63:00.1"),
}
"""Where the first and the second card of a model are."""
PROGRAMMABLE = [name for name, model in CATALOG.items() if model.regions]
LONG = 20.0
"""Seconds: the end of what must end."""


class CardControls(Protocol):
    """Changes of cards."""

    def plug(self, model: str) -> str: ...
    def unplug(self, card: str) -> None: ...
    def replug(self, card: str) -> None: ...
    def fail_next(self, target: str, state: ManagerState) -> None: ...
    def hang_next(self, target: str) -> None: ...
    def release(self, target: str) -> None: ...
    def silence_logic(self, region: str) -> None: ...
    def report_fault(self, target: str, kind: FaultKind) -> None: ...
    def clear_faults(self, card: str) -> None: ...


class Bench(Protocol):
    """The cards of a node, and controls of them; `another` is the hardware as another process has it."""

    @property
    def hardware(self) -> FpgaHardware: ...
    @property
    def controls(self) -> CardControls: ...
    def another(self) -> FpgaHardware: ...


Benches = Callable[..., Bench]


class DiscoverySuite:
    """How cards are found; `benches(*models)` makes them."""

    def test_a_card_is_known_by_its_place(self, benches: Benches) -> None:
        found = benches("pac", "zynq", "alveo", "pac").hardware.cards()
        assert [card.id for card in found] == [
            "0000:3b:00.0",
            "0000:3d:00.0",
            "0000:af:00.1",
            "axi/f8007000.devcfg",
        ]
        assert [card.name for card in found][:3] == ["pci-0000-3b-00-0", "pci-0000-3d-00-0", "pci-0000-af-00-1"]
        assert found[3].name.startswith("platform-axi-f8007000-devcfg-")

    @pytest.mark.parametrize(("model", "places"), PLACES.items(), ids=PLACES)
    def test_cards_of_a_kind_have_different_names(
        self, benches: Benches, model: str, places: tuple[str, str]
    ) -> None:
        found = benches(model, model).hardware.cards()
        assert tuple(card.id for card in found) == places
        assert len({card.name for card in found}) == 2
        assert [(len(card.managers), len(card.bridges)) for card in found] == [(1, CATALOG[model].regions)] * 2

    @pytest.mark.parametrize("model", PROGRAMMABLE)
    def test_a_card_reports_its_properties(self, benches: Benches, model: str) -> None:
        (card,), facts = benches(model).hardware.cards(), CATALOG[model]
        assert (card.kind, card.vendor, card.device) == (CardKind[facts.kind], facts.vendor, facts.device)
        assert (card.shell, card.interface_id) == (facts.shells[0].name, facts.shells[0].interface_id)
        assert (card.serial, card.shell_timestamp) == (facts.serial, facts.shells[0].timestamp)
        other = facts.shells[0].other_interface_ids
        assert [region.other_interface_ids for region in card.regions] == [other] * facts.regions
        assert [region.afu_id for region in card.regions] == [facts.afu] * facts.regions
        assert [len(region.slots) for region in card.regions] == [facts.slots] * facts.regions
        assert [(each.label, each.state) for each in card.managers] == [(facts.manager, ManagerState.OPERATING)]
        assert all(bridge.enabled for bridge in card.bridges)
        assert {region.mechanism.name for region in card.regions if region.mechanism} == {facts.mechanism}
        assert find_faults(card) == ()

    def test_a_card_is_near_to_a_root_and_a_memory(self, benches: Benches) -> None:
        pac, alveo, zynq = benches("pac", "zynq", "alveo").hardware.cards()
        assert (pac.pcie_root, pac.numa_node) == ("pci0000:30", 0)
        assert (alveo.pcie_root, alveo.numa_node) == ("pci0000:a0", 1)
        assert (zynq.pci_address, zynq.pcie_root, zynq.numa_node) == ("", "", None)

    def test_every_port_has_its_own_device_node(self, benches: Benches) -> None:
        pac, alveo = benches("pac", "alveo").hardware.cards()
        assert [slot.nodes[0].path for region in pac.regions for slot in region.slots] == [
            "/dev/dfl-port.0",
            "/dev/dfl-port.1",
        ]
        assert [node.path for node in pac.management] == ["/dev/dfl-fme.0"]
        assert [node.path for node in alveo.regions[0].nodes] == ["/dev/dri/renderD129"]

    def test_a_function_of_vfio_has_nodes_and_nothing_to_program(
        self, benches: Benches, tmp_path: Path
    ) -> None:
        bench = benches("n6001", "n6001")
        for order, function in enumerate(bench.hardware.cards()):
            assert (function.id, function.kind) == (f"0000:b{1 + 2 * order}:00.1", CardKind.VFIO)
            assert [node.path for node in function.function_nodes] == [f"/dev/vfio/{order}", "/dev/vfio/vfio"]
            assert (function.mechanism, function.regions, function.management) == (None, (), ())
        bitstream = Bitstreams(tmp_path).file(bytes(10))
        with pytest.raises(FpgaNotSupportedError, match=r"0000:b1:00\.1"):
            bench.hardware.program("0000:b1:00.1", bitstream, timeout=LONG)

    @pytest.mark.parametrize("models", [("pac", "alveo"), ("zynq", "zynq")], ids="-".join)
    def test_a_removed_card_is_not_listed(self, benches: Benches, models: tuple[str, str]) -> None:
        bench = benches(*models)
        first, second = bench.hardware.cards()
        bench.controls.unplug(second.id)
        assert bench.hardware.cards() == (first,)

    @pytest.mark.parametrize(
        ("model", "part", "kind"),
        [
            ("pac", "", FaultKind.FATAL_ERROR),
            ("pac", "/1", FaultKind.ERROR),
            ("pac", "/0", FaultKind.POWERED_DOWN),
            ("pac", "", FaultKind.OVERHEATED),
            ("alveo", "", FaultKind.OFFLINE),
            ("alveo", "", FaultKind.MEMORY_ERROR),
            ("alveo", "", FaultKind.ERROR),
        ],
    )
    def test_a_card_has_the_faults_that_it_reports(
        self, benches: Benches, model: str, part: str, kind: FaultKind
    ) -> None:
        bench = benches(model)
        target = f"{card(bench).id}{part}"
        bench.controls.report_fault(target, kind)
        found = find_faults(card(bench))
        assert [(each.kind, each.region) for each in found] == [(kind, target if part else "")]
        assert found[0].message
        assert card(bench) == card(bench)
        bench.controls.clear_faults(card(bench).id)
        assert find_faults(card(bench)) == ()


class ProgrammingSuite:
    """How cards are programmed; `benches(*models)` makes them."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> Bitstreams:
        (tmp_path / "bitstreams").mkdir()
        return Bitstreams(tmp_path / "bitstreams")

    @pytest.mark.parametrize("model", PROGRAMMABLE)
    def test_a_region_has_the_programmed_content(self, benches: Benches, files: Bitstreams, model: str) -> None:
        bench = benches(model)
        target, bitstream = region(bench).id, files.fitting(model)
        bench.hardware.program(target, bitstream, timeout=LONG)
        assert region(bench).bitstream == bitstream.sha256
        assert region(bench).state is ManagerState.OPERATING
        assert region(bench).afu_id == (AFU if CATALOG[model].afu else "")

    @pytest.mark.parametrize("model", PROGRAMMABLE)
    def test_invalidated_content_is_unknown(self, benches: Benches, files: Bitstreams, model: str) -> None:
        bench = benches(model)
        bench.hardware.program(region(bench).id, files.fitting(model), timeout=LONG)
        (card,) = bench.hardware.cards()
        bench.hardware.invalidate(card.id)
        (card,) = bench.another().cards()
        assert {card.bitstream, *(each.bitstream for each in card.regions)} == {""}
        with pytest.raises(TargetNotFoundError):
            bench.hardware.invalidate("0000:ff:00.0")

    @pytest.mark.parametrize("model", PROGRAMMABLE)
    def test_other_processes_see_the_content_of_a_region(
        self, benches: Benches, files: Bitstreams, model: str
    ) -> None:
        bench = benches(model)
        bench.hardware.program(region(bench).id, files.fitting(model), timeout=LONG)
        assert bench.another().cards() == bench.hardware.cards()

    def test_other_regions_keep_their_content(self, benches: Benches, files: Bitstreams) -> None:
        bench = benches("pac")
        one, other = (each.id for each in card(bench).regions)
        bench.hardware.program(one, files.fitting("pac", AFU), timeout=LONG)
        bench.hardware.program(other, files.fitting("pac", OTHER_AFU), timeout=LONG)
        assert [each.afu_id for each in card(bench).regions] == [AFU, OTHER_AFU]
        assert [slot.afu_id for each in card(bench).regions for slot in each.slots] == [AFU, OTHER_AFU]
        assert all(each.bitstream for each in card(bench).regions)

    @pytest.mark.parametrize("model", ["pac", "zynq"])
    def test_a_file_with_another_digest_is_rejected(
        self, benches: Benches, files: Bitstreams, model: str
    ) -> None:
        bench, bad = benches(model), replace(files.fitting(model), sha256="0" * 64)
        assert_rejected(bench, bad, WrongDigestError)

    def test_a_file_that_is_too_large_is_refused(self, benches: Benches, files: Bitstreams) -> None:
        bench, bad = benches("zynq"), files.fitting("zynq", size=CATALOG["zynq"].max_bytes)
        assert_rejected(bench, bad, TooLargeError)

    def test_a_file_for_another_interface_is_refused(self, benches: Benches, files: Bitstreams) -> None:
        bench = benches("pac")
        assert_rejected(bench, files.fitting("pac", shell=1), IncompatibleError)
        assert_rejected(bench, files.file(bytes(10), interface_id="ab" * 16), IncompatibleError)

    def test_a_file_for_any_interface_of_the_shell_is_written(
        self, benches: Benches, files: Bitstreams
    ) -> None:
        bench, shell = benches("u55c"), CATALOG["u55c"].shells[0]
        for interface in (shell.interface_id, *shell.other_interface_ids):
            bitstream = files.file(xclbin(interface, AFU))
            bench.hardware.program(region(bench).id, bitstream, timeout=LONG)
            assert region(bench).bitstream == bitstream.sha256
        assert_rejected(bench, files.file(xclbin("ab" * 16, AFU)), IncompatibleError)
        assert_rejected(bench, files.file(xclbin("", AFU)), IncompatibleError)

    def test_a_file_without_an_interface_is_written_to_its_platform_only(
        self, benches: Benches, files: Bitstreams
    ) -> None:
        bench, shell = benches("u200"), CATALOG["u200"].shells[0]
        for name, timestamp in ((shell.name, 1), ("xilinx_u250_xdma_201830_2", shell.timestamp), ("", 0)):
            assert_rejected(bench, files.file(xclbin("", AFU, name, timestamp)), IncompatibleError)
        bitstream = files.file(xclbin("", AFU, shell.name, shell.timestamp))
        bench.hardware.program(region(bench).id, bitstream, timeout=LONG)
        assert region(bench).bitstream == bitstream.sha256

    def test_a_file_with_another_interface_than_requested_is_rejected(
        self, benches: Benches, files: Bitstreams
    ) -> None:
        bench, bad = benches("pac"), replace(files.fitting("pac"), interface_id="ab" * 16)
        assert_rejected(bench, bad, IncompatibleError)

    @pytest.mark.parametrize("model", ["pac", "zynq"])
    def test_a_file_that_cannot_be_read_is_refused(self, benches: Benches, model: str) -> None:
        assert_rejected(benches(model), Bitstream(Path("/nowhere"), "0" * 64), UnreadableBitstreamError)

    def test_a_file_that_is_cut_off_is_refused(self, benches: Benches, files: Bitstreams) -> None:
        broken = make_gbs("ab" * 16, AFU, b"")[:-1]
        assert_rejected(benches("pac"), files.file(broken), UnreadableBitstreamError)

    @pytest.mark.parametrize(("model", "places"), PLACES.items(), ids=PLACES)
    def test_a_missing_target_is_not_programmed(
        self, benches: Benches, files: Bitstreams, model: str, places: tuple[str, str]
    ) -> None:
        bench = benches(model, model)
        here, gone = places
        bench.controls.unplug(gone)
        for target in (f"{here}/2", f"{here[:-1]}7", gone, f"{gone}/0"):
            with pytest.raises(TargetNotFoundError, match=target):
                bench.hardware.program(target, files.fitting(model), timeout=LONG)

    @pytest.mark.parametrize("state", ERRORS, ids=lambda state: state.value)
    @pytest.mark.parametrize("model", ["pac", "zynq"])
    def test_an_error_in_any_state_is_reported_and_ends(
        self, benches: Benches, files: Bitstreams, model: str, state: ManagerState
    ) -> None:
        bench = benches(model)
        target, bitstream = region(bench).id, files.fitting(model)
        bench.controls.fail_next(target, state)
        with pytest.raises(ManagerFailedError, match=state.value) as failure:
            bench.hardware.program(target, bitstream, timeout=LONG)
        assert failure.value.state is state
        assert region(bench).state is state
        assert region(bench).bitstream == ""
        assert FaultKind.PROGRAMMING_FAILED in {fault.kind for fault in find_faults(card(bench))}
        bench.hardware.program(target, bitstream, timeout=LONG)
        assert region(bench).bitstream == bitstream.sha256
        assert find_faults(card(bench)) == ()

    def test_a_region_whose_programming_failed_has_unknown_content(
        self, benches: Benches, files: Bitstreams
    ) -> None:
        bench, bitstream = benches("pac"), files.fitting("pac")
        target, other = (each.id for each in card(bench).regions)
        bench.hardware.program(target, bitstream, timeout=LONG)
        bench.hardware.program(other, bitstream, timeout=LONG)
        bench.controls.fail_next(target, ManagerState.WRITE_ERROR)
        with pytest.raises(ManagerFailedError):
            bench.hardware.program(target, files.fitting("pac", OTHER_AFU), timeout=LONG)
        assert [(each.bitstream, each.afu_id) for each in card(bench).regions] == [
            ("", BLANK_ID),
            (bitstream.sha256, AFU),
        ]

    def test_programming_that_does_not_end_times_out(self, benches: Benches, files: Bitstreams) -> None:
        bench = benches("zynq")
        target, bitstream = region(bench).id, files.fitting("zynq")
        bench.controls.hang_next(target)
        with pytest.raises(ProgrammingTimedOutError, match=target):
            bench.hardware.program(target, bitstream, timeout=0.1)
        assert region(bench).bitstream == ""
        bench.controls.release(target)
        until(lambda: not card(bench).managers[0].state.is_busy)
        until(lambda: can_program(bench, target, bitstream))
        assert region(bench).bitstream == bitstream.sha256

    @pytest.mark.parametrize("model", ["pac", "zynq"])
    def test_a_card_that_is_pulled_meanwhile_is_gone(
        self, benches: Benches, files: Bitstreams, model: str
    ) -> None:
        bench = benches(model)
        target, bitstream = region(bench).id, files.fitting(model)
        bench.controls.hang_next(target)
        with RunInBackground(lambda: bench.hardware.program(target, bitstream, timeout=LONG)) as programming:
            until(lambda: card(bench).managers[0].state.is_busy)
            bench.controls.unplug(card(bench).id)
        assert isinstance(programming.error, CardGoneError)

    @pytest.mark.parametrize("model", ["pac", "zynq"])
    def test_a_card_is_programmed_by_one_at_a_time(
        self, benches: Benches, files: Bitstreams, model: str
    ) -> None:
        bench = benches(model)
        one, other = (card(bench).regions[number].id for number in (0, -1))
        bench.controls.hang_next(one)
        with RunInBackground(lambda: bench.hardware.program(one, files.fitting(model), timeout=LONG)):
            until(lambda: card(bench).managers[0].state.is_busy)
            for hardware in (bench.hardware, bench.another()):
                with pytest.raises(BusyError, match=other):
                    hardware.program(other, files.fitting(model), timeout=LONG)
            bench.controls.release(one)

    @pytest.mark.parametrize("model", PROGRAMMABLE)
    def test_a_card_that_is_back_has_its_name_and_nothing_else(
        self, benches: Benches, files: Bitstreams, model: str
    ) -> None:
        bench = benches(model)
        before = card(bench)
        bench.hardware.program(region(bench).id, files.fitting(model), timeout=LONG)
        bench.controls.unplug(before.id)
        bench.controls.replug(before.id)
        assert card(bench) == before

    def test_logic_that_does_not_answer_is_a_fault_until_it_is_programmed(
        self, benches: Benches, files: Bitstreams
    ) -> None:
        bench = benches("pac")
        target = region(bench).id
        bench.hardware.program(target, files.fitting("pac"), timeout=LONG)
        bench.controls.silence_logic(target)
        (fault,) = find_faults(card(bench))
        assert (fault.kind, fault.region) == (FaultKind.NO_ANSWER, target)
        assert region(bench).bitstream == ""
        bench.hardware.program(target, files.fitting("pac"), timeout=LONG)
        assert find_faults(card(bench)) == ()

    def test_a_shell_changes_what_fits(self, benches: Benches, files: Bitstreams) -> None:
        bench, shells = benches("alveo"), CATALOG["alveo"].shells
        target, before, after = region(bench).id, files.fitting("alveo"), files.fitting("alveo", shell=1)
        bench.hardware.program(target, before, timeout=LONG)
        bench.hardware.program(card(bench).id, files.shell("alveo", 1), timeout=LONG)
        assert (card(bench).shell, card(bench).interface_id) == (shells[1].name, shells[1].interface_id)
        assert card(bench).bitstream == files.shell("alveo", 1).sha256
        assert (region(bench).bitstream, region(bench).afu_id) == ("", "0" * 32)
        assert_rejected(bench, before, IncompatibleError)
        bench.hardware.program(target, after, timeout=LONG)
        assert region(bench).bitstream == after.sha256


class ChangeSuite:
    """Reports of changes of cards; `benches(*models)` makes the cards and sends the reports."""

    @pytest.mark.parametrize("model", ["pac", "zynq"])
    def test_adding_a_card_is_reported(self, benches: Benches, model: str) -> None:
        bench = benches("zynq")
        before = bench.hardware.cards()
        bench.controls.plug(model)
        assert bench.hardware.wait_change(LONG)
        assert len(bench.hardware.cards()) == len(before) + 1

    @pytest.mark.parametrize("model", ["pac", "zynq"])
    def test_removing_a_card_is_reported(self, benches: Benches, model: str) -> None:
        bench = benches("zynq", model)
        bench.controls.unplug(PLACES[model][0])
        assert bench.hardware.wait_change(LONG)

    @pytest.mark.parametrize("model", ["pac", "zynq"])
    def test_several_changes_are_reported_as_one(self, benches: Benches, model: str) -> None:
        bench = benches(model)
        for _ in range(3):
            bench.controls.unplug(PLACES[model][0])
            bench.controls.replug(PLACES[model][0])
        assert bench.hardware.wait_change(LONG)
        assert not bench.hardware.wait_change(0)

    def test_programming_is_not_reported_as_a_change(self, benches: Benches, tmp_path: Path) -> None:
        bench = benches("zynq")
        bench.hardware.program(region(bench).id, Bitstreams(tmp_path).fitting("zynq"), timeout=LONG)
        assert not bench.hardware.wait_change(0)


class RunInBackground:
    """Runs an action on a thread, and waits for its end."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.error: FpgaError | None = None
        self._action = action
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "RunInBackground":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(LONG)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._action()
        except FpgaError as error:
            self.error = error


def card(bench: Bench) -> FpgaCard:
    """The first card."""
    return bench.hardware.cards()[0]


def region(bench: Bench) -> Region:
    """Its first region."""
    return card(bench).regions[0]


def assert_rejected(bench: Bench, bitstream: Bitstream, error: type[FpgaError]) -> None:
    """The file is refused, and the region holds what it held."""
    before = bench.hardware.cards()
    with pytest.raises(error, match=str(bitstream.path) if bitstream.path.exists() else None):
        bench.hardware.program(region(bench).id, bitstream, timeout=LONG)
    assert bench.hardware.cards() == before


def can_program(bench: Bench, target: str, bitstream: Bitstream) -> bool:
    """Whether the card can be programmed already."""
    try:
        bench.hardware.program(target, bitstream, timeout=LONG)
    except BusyError:
        return False
    return True


def until(happened: Callable[[], bool]) -> None:
    """Waits; a test that waits in vain ends by its timeout."""
    while not happened():
        time.sleep(0.001)
