"""Decides whether the operator has approved the bytes that a claim names. Pure.

| `bitstreams` of the settings | a claim's bitstream is approved if |
|---|---|
| neither `digests` nor `keys` | never |
| `digests` | its digest is listed |
| `keys` | one of the keys signed its digest, or its digest and its interface |
| `allowUnsigned: true` | always, if `keys` is empty |

`digests` and `keys` can be used together: a listed bitstream needs no signature. A claim can name any digest,
so the digest in a claim alone proves nothing about who made the file.
"""

import base64
import enum
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dradriver_fpga.bitstreams.errors import BitstreamError
from dradriver_fpga.card import normalize_id
from dradriver_fpga.configs import RequestedBitstream
from dradriver_fpga.settings import FpgaSettings

__all__ = ["Approval", "BitstreamApprover"]


class Approval(enum.Enum):
    """Why a bitstream is approved."""

    LISTED = "the operator lists its digest"
    SIGNED_FOR_INTERFACE = "a trusted key signed its digest and its interface"
    SIGNED = "a trusted key signed its digest"
    UNSIGNED = "the operator allows every bitstream"

    @property
    def covers_interface(self) -> bool:
        """Whether the interface that the claim states may be trusted.

        A signature over the digest covers the interface only if the file itself names it.
        """
        return self is not Approval.SIGNED


class BitstreamApprover:
    """The operator's approvals.

    Args:
        settings: the operator's settings.
    """

    def __init__(self, settings: FpgaSettings) -> None:
        rules = settings.bitstreams
        self._keys = settings.public_keys()
        self._digests = frozenset(digest.lower() for digest in rules.digests)
        self._allow_unsigned = rules.allow_unsigned

    def approve(self, bitstream: RequestedBitstream) -> Approval:
        """Return why a bitstream may be programmed. No file is needed.

        Args:
            bitstream: the requested bitstream.

        Raises:
            BitstreamError: the operator has not approved the bitstream.
        """
        if bitstream.digest in self._digests:
            return Approval.LISTED
        if self._keys:
            return self._verify(bitstream)
        if self._allow_unsigned:
            return Approval.UNSIGNED
        raise BitstreamError(
            f"bitstream.sha256 {bitstream.digest} ({bitstream.location}) is not in bitstreams.digests of this "
            f"node's settings, which have no bitstreams.keys either",
            "NotListed",
        )

    def _verify(self, bitstream: RequestedBitstream) -> Approval:
        if not bitstream.signature:
            raise BitstreamError(
                f"bitstream.signature of {bitstream.location} is missing: this node programs only bitstreams "
                f"that a key of bitstreams.keys signed or that bitstreams.digests lists",
                "NotSigned",
            )
        signature, digest = base64.b64decode(bitstream.signature), bytes.fromhex(bitstream.digest)
        interface = bytes.fromhex(normalize_id(bitstream.interface_id))
        if interface and _verifies(self._keys, signature, digest + interface):
            return Approval.SIGNED_FOR_INTERFACE
        if _verifies(self._keys, signature, digest):
            return Approval.SIGNED
        raise BitstreamError(
            f"bitstream.signature of {bitstream.location} is not by a key of bitstreams.keys of this node's "
            f"settings, or is for another digest or another interfaceID",
            "NotTrusted",
        )


def _verifies(keys: Sequence[Ed25519PublicKey], signature: bytes, statement: bytes) -> bool:
    for key in keys:
        try:
            key.verify(signature, statement)
        except InvalidSignature:
            continue
        return True
    return False
