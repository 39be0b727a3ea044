"""Headers of bitstream files."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dradriver_fpga.card import Bitstream, IncompatibleError, UnreadableBitstreamError, normalize_id
from dradriver_fpga.card.images import Format, Image, load_image, require_interface
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
    assert (image.format, image.bits) == (Format.GBS, bits)
    assert (image.interface_id, image.afu_id) == (normalize_id(str(interface)), normalize_id(str(afu)))


def test_an_xclbin_is_for_its_platform(files: Bitstreams) -> None:
    image = load(files, xclbin(ONE, AFU))
    assert (image.format, image.interface_id, image.afu_id) == (Format.XCLBIN, ONE, AFU)
    assert image.bits == image.data


@given(st.binary(max_size=100).filter(lambda data: not data.startswith((b"XeonFPGA", b"xclbin2"))))
def test_other_files_say_nothing(files: Bitstreams, data: bytes) -> None:
    image = load(files, data)
    assert (image.format, image.interface_id, image.afu_id, image.bits) == (Format.RAW, "", "", data)


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
    image = Image(Format.RAW, header, "", b"")
    if fits:
        require_interface(image, bitstream, card, "region")
    else:
        with pytest.raises(IncompatibleError, match=r"a\.gbs"):
            require_interface(image, bitstream, card, "region")
