"""Expands `$(NAME)` in commands, arguments and variables, as the kubelet does."""

import re
from collections.abc import Mapping
from typing import Final

from dradriver.model.core.workload import Container

__all__ = ["expand", "expand_argv", "expand_env"]

_REFERENCE: Final = re.compile(r"\$(\$|\(([^()]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace each `$(NAME)` by its value. An unknown name stays unchanged, and `$$` becomes `$`."""

    def replacement(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return variables.get(match[2], match[0])

    return _REFERENCE.sub(replacement, text)


def expand_env(container: Container) -> dict[str, str]:
    """Return the container's variables. Each variable may refer to the variables before it."""
    env: dict[str, str] = {}
    for variable in container.env:
        env[variable.name] = expand(variable.value, env)
    return env


def expand_argv(container: Container, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return command and arguments; empty if the pod specifies neither."""
    return tuple(expand(word, env) for word in [*container.command, *container.args])
