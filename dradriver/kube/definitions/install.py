"""Reads the packaged definitions and installs them."""

from importlib import resources
from typing import Any, Final

from dradriver.kube.client import Client, PatchKind
from dradriver.kube.resources import CONTROLLER_ALLOCATIONS, CRDS, SCHEDULING_CONTEXTS

__all__ = ["install_definitions", "read_definitions"]

_FIELD_MANAGER: Final = "dradriver"


def read_definitions() -> list[dict[str, Any]]:
    """Return the definitions of `PodSchedulingContext` and `ControllerAllocation`."""
    import yaml  # noqa: PLC0415 - slow to import

    folder = resources.files(__package__)
    names = (each.plural for each in (SCHEDULING_CONTEXTS, CONTROLLER_ALLOCATIONS))
    return [yaml.safe_load(folder.joinpath(f"{name}.yaml").read_text(encoding="utf-8")) for name in names]


async def install_definitions(client: Client) -> None:
    """Create the definitions, or update the definitions of another version of dradriver.

    If the process dies in between, the next call installs the missing definition.

    Args:
        client: a client that may write custom resource definitions.

    Raises:
        ApiError: the API server rejects a definition.
    """
    for definition in read_definitions():
        name = definition["metadata"]["name"]
        await client.patch(
            CRDS, name, "", definition, PatchKind.APPLY, into=bytes, field_manager=_FIELD_MANAGER, force=True
        )
