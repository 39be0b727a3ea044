"""Checks whether a trusted key signed a bitstream. Pure."""

import base64
import binascii
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dradriver_fpga.bitstreams.errors import BitstreamError
from dradriver_fpga.configs import RequestedBitstream

__all__ = ["require_signature"]


def require_signature(bitstream: RequestedBitstream, keys: Sequence[Ed25519PublicKey]) -> None:
    """Check that one of the keys signed the bitstream. Without keys, every bitstream is accepted.

    The signature covers the digest, so the check needs no file.

    Args:
        bitstream: the requested bitstream.
        keys: the public keys that this node trusts.

    Raises:
        BitstreamError: the signature is missing, malformed, or made by an untrusted key.
    """
    if not keys:
        return
    if not bitstream.signature:
        raise BitstreamError(f"{bitstream.location} has no signature, and this node requires one", "NotSigned")
    try:
        signature = base64.b64decode(bitstream.signature, validate=True)
    except binascii.Error as error:
        raise BitstreamError(f"the signature of {bitstream.location} is not base64", "NotSigned") from error
    if not any(_verifies(key, signature, bytes.fromhex(bitstream.digest)) for key in keys):
        raise BitstreamError(f"{bitstream.location} is not signed by a key that this node trusts", "NotTrusted")


def _verifies(key: Ed25519PublicKey, signature: bytes, digest: bytes) -> bool:
    try:
        key.verify(signature, digest)
    except InvalidSignature:
        return False
    return True
