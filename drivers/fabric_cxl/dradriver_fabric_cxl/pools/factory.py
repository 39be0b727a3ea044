"""Chooses the fabric that the driver works with: the one behind the manager, or a simulated one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import dradriver as dra
from dradriver_fabric_cxl.fabric import Fabric, FabricPace
from dradriver_fabric_cxl.pools.settings import VARIABLE, ManagerSettings, PoolsSettings
from dradriver_fabric_cxl.pools.simulated import SimulatedFabricOfNodes
from dradriver_fabric_cxl.simulation import claim_simulated_host, default_folder

__all__ = ["open_fabric"]

_EXTRA: Final = ("aiohttp", "redfish")


def open_fabric(
    settings: PoolsSettings, simulate: Literal["never", "auto", "always"]
) -> AbstractAsyncContextManager[Fabric]:
    """Return a context manager with the fabric. Nothing is sent before the first call.

    Args:
        settings: the operator's settings.
        simulate: mode of the SDK; with `auto`, the fabric is simulated if the settings have no manager.

    Raises:
        UsageError: the settings have no manager, and nothing may be simulated.
        DraError: the extra `manager` is not installed.
    """
    pace = FabricPace(attach=settings.attach_seconds)
    if simulate == "always" or (simulate == "auto" and settings.manager is None):
        return _open_simulator(settings, pace)
    if settings.manager is None:
        raise dra.UsageError(f"${VARIABLE}: manager: is required, with url, userFile and passwordFile")
    missing = [each for each in _EXTRA if find_spec(each) is None]
    if missing:
        raise dra.DraError(
            f"the fabric manager needs {', '.join(missing)}, not installed here: "
            "pip install 'dradriver-fabric-cxl[manager]'"
        )
    return _open_manager(settings.manager, pace)


@asynccontextmanager
async def _open_simulator(settings: PoolsSettings, pace: FabricPace) -> AsyncIterator[Fabric]:
    configured = settings.simulator.folder
    folder = Path(configured) if configured else default_folder()
    for node in settings.hosts.values():
        await asyncio.to_thread(claim_simulated_host, folder, node, settings.hosts)
    yield SimulatedFabricOfNodes(folder, pace=pace)


@asynccontextmanager
async def _open_manager(manager: ManagerSettings, pace: FabricPace) -> AsyncIterator[Fabric]:
    # Only this process needs the extra, so a driver of a node must not import it.
    from dradriver_fabric_cxl.fabric.redfish import (  # noqa: PLC0415
        CredentialFiles,
        RedfishSettings,
        open_redfish,
    )

    settings = RedfishSettings(
        manager.url,
        CredentialFiles(Path(manager.user_file), Path(manager.password_file)),
        ca=Path(manager.ca_file) if manager.ca_file else None,
        fabric=manager.fabric,
        pace=pace,
    )
    async with open_redfish(settings) as fabric:
        yield fabric
