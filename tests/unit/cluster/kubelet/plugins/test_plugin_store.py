"""Drivers that end during a call or before it, and drivers that are not registered."""

import asyncio
import logging
import sys
import tempfile
from pathlib import Path

import pytest

from dradriver.cluster.kubelet.claims.health import HealthCache
from dradriver.cluster.kubelet.plugins import plugin_store
from dradriver.cluster.kubelet.plugins.plugin import ClaimToPrepare
from dradriver.cluster.kubelet.plugins.plugin_store import NotRegisteredError, PluginStore
from dradriver.errors import DraError

DYING = """
import asyncio, os, sys
import grpc
from dradriver.wire.stubs import dra_v1_grpc

class Dying(dra_v1_grpc.DRAPluginServicer):
    async def NodePrepareResources(self, request, context):
        os._exit(1)

async def main():
    server = grpc.aio.server()
    dra_v1_grpc.add_DRAPluginServicer_to_server(Dying(), server)
    server.add_insecure_port(f"unix:{sys.argv[1]}")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()

asyncio.run(main())
"""


def store() -> PluginStore:
    async def wipe(_driver: str) -> None: ...

    return PluginStore(
        wipe,
        wipe_seconds=30.0,
        call_timeout=20.0,
        health=HealthCache(),
        on_usable=lambda _driver: None,
        on_health_changed=lambda _driver, _devices: None,
    )


async def test_a_driver_that_dies_in_prepare_is_named() -> None:
    with tempfile.TemporaryDirectory(prefix="dra") as folder:
        socket = Path(folder, "dra.sock")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", DYING, str(socket), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        plugins = store()
        plugins.register("led.example.com", str(socket), ["v1.DRAPlugin"])
        with pytest.raises(DraError) as caught:
            await plugins.get("led.example.com").prepare([ClaimToPrepare("default", "u", "c")])
        assert str(caught.value) == "NodePrepareResources: DRA driver led.example.com ended during the call"
        await plugins.stop()
        await process.wait()


async def test_a_call_after_the_end_of_the_registration_is_an_error() -> None:
    plugins = store()
    plugins.register("led.example.com", "/nowhere.sock", ["v1.DRAPlugin"])
    plugin = plugins.get("led.example.com")
    await plugins.deregister("led.example.com", "/nowhere.sock")
    with pytest.raises(DraError, match="the client connection is closing"):
        await plugin.prepare([ClaimToPrepare("default", "u", "c")])
    await plugins.stop()


async def test_a_missing_driver_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_store, "_REGISTRATION_GRACE_SECONDS", 0.0)
    plugins = store()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with pytest.raises(NotRegisteredError, match="is not registered"):
                plugins.get("led.example.com")
            await asyncio.gather(*plugins._missing_warnings.values())
    assert [record.getMessage() for record in caplog.records] == [
        "DRA driver led.example.com is not registered: pods with its claims can neither start nor end"
    ]
    await plugins.stop()


async def test_a_driver_that_registers_in_time_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    plugins = store()
    with pytest.raises(NotRegisteredError):
        plugins.get("led.example.com")
    plugins.register("led.example.com", "/nowhere.sock", ["v1.DRAPlugin"])
    assert not plugins._missing_warnings
    await plugins.stop()
    assert not [
        each
        for each in caplog.records
        if each.name == plugin_store.__name__ and each.levelno >= logging.WARNING
    ]
