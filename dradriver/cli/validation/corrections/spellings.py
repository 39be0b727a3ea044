"""Finds the nearest right spelling of a word."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["nearest_label", "nearest_subdomain", "nearest_word"]


def nearest_word(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known word that is most like a word, without regard to its case; empty if none is similar.

    Args:
        word: the misspelled word.
        known: the right words.
        cutoff: the least similarity, from 0 to 1.
    """
    folded = {each.casefold(): each for each in known}
    similar = get_close_matches(word.casefold(), folded, n=1, cutoff=cutoff)
    return folded[similar[0]] if similar else ""


def nearest_label(text: str) -> str:
    """Return a DNS label that is like a text, such as `memory-slice-0` for `memorySlice0`; empty if none is."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Za-z])(?=\d+$)", "-", text)
    label = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    return label if label != text else ""


def nearest_subdomain(text: str) -> str:
    """Return a DNS subdomain that is like a text, such as `gpu.example.com` for `GPU.example.com`; or empty."""
    subdomain = ".".join(
        filter(None, (re.sub(r"[^a-z0-9]+", "-", each).strip("-") for each in text.lower().split(".")))
    )
    return subdomain if subdomain != text else ""
