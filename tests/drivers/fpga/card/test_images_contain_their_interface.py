"""Headers of bitstream files."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dradriver_fpga.card import Bitstream, IncompatibleError, Platform, UnreadableBitstreamError, normalize_id
from dradriver_fpga.card.images import Format, Image, load_image, require_platform
from tests.drivers.fpga.bitstream_files import AFU, Bitstreams, make_gbs, xclbin

LIMIT = 1 << 20
ONE, OTHER = "ab" * 16, "cd" * 16


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Bitstreams:
    return Bitstreams(tmp_path_factory.mktemp("bitstreams"))


def load(files: Bitstreams, data: bytes) -> Image:
    return load_image(files.file(data), LIMIT)


@given(st.uuids(), st.uuids(), st.binary(max_size=100))
def test_a_written_gbs_can_be_read(files: Bitstreams, interface: object, afu: object, bits: bytes) -> None:
    image = load(files, make_gbs(str(interface), str(afu), bits))
    assert (image.format, image.size - image.start) == (Format.GBS, len(bits))
    assert (image.interface_id, image.afu_id) == (normalize_id(str(interface)), normalize_id(str(afu)))


def test_an_xclbin_is_for_its_platform(files: Bitstreams) -> None:
    image = load(files, xclbin(ONE, AFU, FLAT, 7))
    assert (image.format, image.interface_id, image.afu_id) == (Format.XCLBIN, ONE, AFU)
    assert (image.platform, image.timestamp) == (FLAT, 7)
    assert load(files, xclbin("", AFU)).interface_id == ""
    assert (image.start, image.size) == (0, 556)


@given(st.binary(max_size=100).filter(lambda data: not data.startswith((b"XeonFPGA", b"xclbin2"))))
def test_other_files_say_nothing(files: Bitstreams, data: bytes) -> None:
    image = load(files, data)
    assert image == Image(Format.RAW, "", "", len(data))


@given(st.sampled_from([make_gbs(ONE, AFU, b""), xclbin(ONE, AFU)[:456]]), st.data())
def test_a_header_that_is_cut_off_is_no_header(files: Bitstreams, header: bytes, data: st.DataObject) -> None:
    length = data.draw(st.integers(16, len(header) - 1))
    with pytest.raises(UnreadableBitstreamError, match=str(files.folder)):
        load(files, header[:length])


@pytest.mark.parametrize("metadata", [b"[]", b"{}", b'{"afu-image":{"interface-uuid":1}}', b"\xff"])
def test_invalid_metadata_is_reported(files: Bitstreams, metadata: bytes) -> None:
    data = make_gbs("", "", b"")[:16] + len(metadata).to_bytes(4, "little") + metadata
    with pytest.raises(UnreadableBitstreamError, match=str(files.folder)):
        load(files, data)


@pytest.mark.parametrize(
    ("said", "header", "card", "fits"),
    [
        ("", "", "", True),
        ("", "", ONE, True),  # neither the file nor the claim has an ID
        (ONE, "", ONE, True),
        ("", ONE, ONE, True),
        ("ABABABAB-abab-ABAB-abab-ABABABABABAB", ONE, ONE, True),
        (ONE, ONE, "", True),
        (OTHER, "", ONE, False),
        ("", OTHER, ONE, False),
        (OTHER, ONE, ONE, False),
        (ONE, OTHER, ONE, False),
    ],
)
def test_a_bitstream_fits_one_interface(said: str, header: str, card: str, *, fits: bool) -> None:
    bitstream = replace(Bitstream(Path("a.gbs"), "0" * 64), interface_id=said)
    image = Image(Format.RAW, header, "", 0)
    platform = Platform((card,) if card else ())
    if fits:
        require_platform(image, bitstream, platform, "region")
    else:
        with pytest.raises(IncompatibleError, match=r"a\.gbs"):
            require_platform(image, bitstream, platform, "region")


XCLBIN = Bitstream(Path("a.xclbin"), "0" * 64)
FLAT = "xilinx_u200_xdma_201830_2"


def test_a_bitstream_fits_each_interface_of_a_shell() -> None:
    platform = Platform((ONE, OTHER))
    for interface in (ONE, OTHER):
        require_platform(Image(Format.XCLBIN, interface, "", 0), XCLBIN, platform, "region")
    with pytest.raises(IncompatibleError, match=f"is for interface {'ef' * 16}, region has {ONE} and {OTHER}"):
        require_platform(Image(Format.XCLBIN, "ef" * 16, "", 0), XCLBIN, platform, "region")


@pytest.mark.parametrize(
    ("file", "card", "reason"),
    [
        ((FLAT, 7), Platform((), FLAT, 7), ""),
        (("xilinx:u200:xdma:201830.2", 7), Platform((), FLAT, 7), ""),
        ((FLAT, 0), Platform((), FLAT, 7), ""),
        (("", 7), Platform((), "", 7), ""),
        ((FLAT, 8), Platform((), FLAT, 7), f"platform {FLAT} with time stamp 8, region has {FLAT} with time"),
        (("xilinx_u250", 0), Platform((), FLAT), f"is for platform xilinx_u250, region has {FLAT}"),
        (("xilinx_u250", 7), Platform((), FLAT, 7), f"is for platform xilinx_u250, region has {FLAT}"),
        (("", 0), Platform((ONE,), FLAT, 7), "cannot be compared with region"),
        (("", 7), Platform((ONE,), FLAT), "cannot be compared with region"),
    ],
)
def test_an_xclbin_without_an_interface_fits_its_platform(
    file: tuple[str, int], card: Platform, reason: str
) -> None:
    image = Image(Format.XCLBIN, "", "", 0, platform=file[0], timestamp=file[1])
    if not reason:
        require_platform(image, XCLBIN, card, "region")
        return
    with pytest.raises(IncompatibleError, match=reason):
        require_platform(image, XCLBIN, card, "region")
