"""Whether a bitstream was signed by somebody whom the operator trusts. Pure."""

import base64
import binascii
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dradriver_fpga.bitstreams.errors import BitstreamError
from dradriver_fpga.configs import RequestedBitstream

__all__ = ["require_signature"]


def require_signature(bitstream: RequestedBitstream, keys: Sequence[Ed25519PublicKey]) -> None:
    """Lets a bitstream pass that one of the keys has signed, or any where there are none.

    What is signed is the digest, so this is known before the file is fetched.

    Raises:
        BitstreamError: it must not be used.
    """
    if not keys:
        return
    if not bitstream.signature:
        raise BitstreamError(f"{bitstream.where} is not signed, and this node wants it", "NotSigned")
    try:
        signature = base64.b64decode(bitstream.signature, validate=True)
    except binascii.Error as error:
        raise BitstreamError(f"the signature of {bitstream.where} is not base64", "NotSigned") from error
    if not any(_fits(key, signature, bytes.fromhex(bitstream.digest)) for key in keys):
        raise BitstreamError(f"{bitstream.where} is signed by nobody whom this node trusts", "NotTrusted")


def _fits(key: Ed25519PublicKey, signature: bytes, digest: bytes) -> bool:
    try:
        key.verify(signature, digest)
    except InvalidSignature:
        return False
    return True
