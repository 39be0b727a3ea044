"""The hardware behind the fabric follows connections."""

from dradriver_fabric_cxl.emulator.resources.fabric import system_uuid
from dradriver_fabric_cxl.emulator.resources.paths import (
    ACCELERATOR,
    ACCELERATOR_ENDPOINT,
    CONNECTIONS,
    ENDPOINTS,
    link,
)
from tests.drivers.fabric_cxl.emulator.processes import EmulatorProcess, connection


async def test_the_hook_is_called_for_each_connection_and_disconnection(emulator: EmulatorProcess) -> None:
    emulator.hook = "exit 0"
    async with emulator.running() as client:
        path = await client.make_chunk(mebibytes=512)
        device = (await client.get(path))["Links"]["CXLLogicalDevices"][0]["@odata.id"]
        name = (await client.get(device))["Identifiers"][0]["DurableName"]
        made = await client.connect(path, "host-2")
        await client.finish(await client.send("DELETE", made))
    connect, disconnect = emulator.calls
    assert disconnect == connect | {"operation": "disconnect"}
    assert connect == {
        "operation": "connect",
        "kind": "memory",
        "connection": made,
        "host": "host-2",
        "system_uuid": system_uuid("host-2"),
        "device": path,
        "serial": int(name.partition(":")[0].replace("-", ""), 16),
        "bytes": 512 << 20,
    }


async def test_the_hook_gets_the_serial_number_of_the_accelerator(emulator: EmulatorProcess) -> None:
    emulator.hook = "exit 0"
    request = {
        "Links": {
            "InitiatorEndpoints": [link(f"{ENDPOINTS}/host-1")],
            "TargetEndpoints": [link(ACCELERATOR_ENDPOINT)],
        }
    }
    async with emulator.running() as client:
        await client.finish(await client.send("POST", CONNECTIONS, request))
        number = (await client.get(ACCELERATOR))["SerialNumber"]
    (call,) = emulator.calls
    assert (call["kind"], call["device"], call["bytes"]) == ("accelerator", ACCELERATOR, 0)
    assert call["serial"] == int(number.replace("-", ""), 16) != 0


async def test_a_connection_that_the_hardware_rejects_is_not_made(emulator: EmulatorProcess) -> None:
    emulator.hook = "echo no port is free >&2; exit 3"
    async with emulator.running() as client:
        path = await client.make_chunk()
        answer = await client.finish(await client.send("POST", CONNECTIONS, connection(path)))
        assert answer.status == 500
        assert "no port is free" in answer.body["error"]["message"]
        assert await client.members(CONNECTIONS) == []


async def test_a_disconnection_that_the_hardware_rejects_leaves_the_connection(
    emulator: EmulatorProcess,
) -> None:
    async with emulator.running() as client:
        made = await client.connect(await client.make_chunk())
    emulator.hook = "exit 1"
    async with emulator.running() as client:
        assert (await client.finish(await client.send("DELETE", made))).status == 500
        assert (await client.get(made))["Status"]["State"] == "Enabled"
