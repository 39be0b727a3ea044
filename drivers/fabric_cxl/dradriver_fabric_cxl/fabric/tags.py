"""The tag of an attachment: the name under which the fabric manager keeps all of its objects. Pure.

An object with a tag is found again after a lost answer or a crash, by the tag alone. `Name` has a hash, because
managers limit its length. `Description` has the identity in full.
"""

import hashlib
from typing import Final

import msgspec

__all__ = ["AttachmentIdentity", "parse_identity"]

_PREFIX: Final = "dra-"
_DIGITS: Final = 32


class AttachmentIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One allocation of one device, for which memory or an accelerator is attached.

    Attributes:
        claim: UID of the claim.
        pool: name of the pool.
        device: name of the device.
        allocated_at: allocation time of the claim, as the API server writes it. It separates two allocations of
            one claim.
        share: ID of the share; "" for a device that is not shared.
    """

    claim: str
    pool: str
    device: str
    allocated_at: str
    share: str = ""

    @property
    def tag(self) -> str:
        """The name of all objects of this attachment: `dra-` and 32 hexadecimal digits."""
        fields = msgspec.json.encode([self.claim, self.pool, self.device, self.share, self.allocated_at])
        return _PREFIX + hashlib.sha256(fields).hexdigest()[:_DIGITS]

    @property
    def description(self) -> str:
        """The identity in full, as text for the object's description."""
        return msgspec.json.encode(self).decode()


def parse_identity(name: object, description: object) -> AttachmentIdentity | None:
    """Return the identity of an object, from its name and description.

    Args:
        name: `Name` of the object, as the manager returns it.
        description: `Description` of the object, as the manager returns it.

    Returns:
        None if the name is not the tag of the described identity: the object belongs to somebody else.
    """
    if not isinstance(name, str) or not isinstance(description, str) or not name.startswith(_PREFIX):
        return None
    try:
        identity = msgspec.json.decode(description, type=AttachmentIdentity)
    except msgspec.DecodeError:
        return None
    return identity if identity.tag == name else None
