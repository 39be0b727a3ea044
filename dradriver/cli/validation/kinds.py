"""Finds misspelled kinds. Other kinds are skipped, so a misspelled kind would be skipped without a message."""

from typing import Final

from dradriver.cli.files import Document
from dradriver.cli.validation.corrections import nearest_word
from dradriver.cli.validation.objects import KINDS
from dradriver.errors import Problem
from dradriver.model.encoding.versions import GROUP

__all__ = ["find_misspelled_kind"]

_CORE: Final = ("Pod", "Node")
_OTHER_KINDS: Final = frozenset({
    "ResourceClass", "ResourceClassParameters", "ResourceClaimParameters", "ResourcePoolStatusRequest",
})  # fmt: skip
"""Kinds of older and newer versions of resource.k8s.io, which are not checked."""
_CUTOFF: Final = 0.8


def find_misspelled_kind(document: Document) -> Problem | None:
    """Return the problem of a kind that is not a kind of its group, but similar to one; None for other kinds.

    Args:
        document: the object.
    """
    group, _, _ = (document.api_version or "").rpartition("/")
    kinds = KINDS if group == GROUP else _CORE if document.api_version == "v1" else ()
    if document.kind in {*kinds, *_OTHER_KINDS} or not kinds:
        return None
    nearest = nearest_word(document.kind, kinds, _CUTOFF)
    if not nearest or document.kind == f"{nearest}List":
        return None
    return Problem("kind", f"{group or 'the core group'} has no such kind (similar: {nearest})")
