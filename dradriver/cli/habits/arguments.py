"""Brings the options of a command line into the form and the place that the commands expect."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

__all__ = ["find_values", "move_leading_options", "unify_options"]

_SHORT_VALUE: Final = re.compile(r"-([A-Za-z])=(?!=)(.*)", re.DOTALL)
_SHORT_WITH_VALUE: Final = ("-n", "-o", "-l")
_WITH_VALUE: Final = frozenset(
    (
        *_SHORT_WITH_VALUE,
        "--context",
        "--field-selector",
        "--kubeconfig",
        "--namespace",
        "--output",
        "--selector",
        "--sort-by",
    )
)
_FLAGS: Final = frozenset(
    (
        "-A",
        "-w",
        "--all-namespaces",
        "--ignore-not-found",
        "--no-headers",
        "--show-labels",
        "--watch",
        "--watch-only",
    )
)
_WITH_VALUE_OF_COMMANDS: Final = _WITH_VALUE | {"-f", "--filename", "--driver", "--node", "--pool"}


def unify_options(words: Sequence[str]) -> list[str]:
    """Return the words with `-o=json` written as `-ojson`, and `--watch=true` as `--watch`.

    kubectl accepts all these forms. click takes the equals sign of `-o=json` as a part of the value, and gives
    no value to a flag. Words after `--` are kept.

    Args:
        words: the words of a command line.
    """
    end = words.index("--") if "--" in words else len(words)
    return [*(_unify(word) for word in words[:end]), *words[end:]]


def _unify(word: str) -> str:
    flag = word.removesuffix("=true")
    return flag if flag in _FLAGS else _SHORT_VALUE.sub(r"-\1\2", word)


def move_leading_options(words: Sequence[str]) -> list[str]:
    """Return the words with the options of kubectl moved from before the command to directly after it.

    Without a command, the words are unchanged. If an option is given in both places, the later one counts, as
    in kubectl.

    Args:
        words: words that begin with options or with the name of a command.
    """
    position = 0
    while position < len(words):
        word = words[position]
        if word in _WITH_VALUE:
            position += 2
        elif word in _FLAGS or _has_own_value(word):
            position += 1
        else:
            break
    if position >= len(words) or words[position].startswith("-"):
        return list(words)
    return [words[position], *words[:position], *words[position + 1 :]]


def find_values(words: Sequence[str]) -> frozenset[int]:
    """Return the positions of words that are values of options, such as `a/b.yaml` after `-f`.

    Args:
        words: a kind and the words after it.
    """
    pairs = enumerate(pairwise(words), start=1)
    return frozenset(position for position, (option, _) in pairs if option in _WITH_VALUE_OF_COMMANDS)


def _has_own_value(word: str) -> bool:
    """Return whether the word is an option of kubectl with its value, such as `-nteam` or `--context=a`."""
    name, equals, _ = word.partition("=")
    return bool(equals and name in _WITH_VALUE) or (word.startswith(_SHORT_WITH_VALUE) and len(word) > 2)
