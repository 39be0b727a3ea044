"""`dradriver explain pod` against an embedded API server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from click.testing import Result
from msgspec.structs import replace

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import CLAIMS, PODS, Client, PatchKind
from dradriver.model.claim import DeviceResult
from dradriver.testing.builders import DRIVER, allocated, claim, pod
from tests.unit.control.world import NOW

Command = Callable[..., Result]


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    server = ApiServer(tmp_path / "server")
    await server.start()
    path = tmp_path / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, path)
    yield path
    await server.stop()


async def explain(dradriver: Command, kubeconfig: Path, *words: str) -> Result:
    # Commands bring their own event loop, the server runs on the test's.
    return await asyncio.to_thread(dradriver, "explain", "pod", *words, "--kubeconfig", str(kubeconfig))


async def waiting(kubeconfig: Path, *conditions: dict[str, str]) -> None:
    """A pod whose claim is allocated a device with a binding condition."""
    result = DeviceResult(
        request="device",
        driver=DRIVER,
        pool="fabric",
        device="gpu-0",
        binding_conditions=["attached"],
        binding_failure_conditions=["attach-failed"],
    )
    wanted = allocated(claim(name="mine"), result)
    assert wanted.allocation is not None
    async with await Client.connect(str(kubeconfig)) as client:
        await client.create(CLAIMS, wanted, "default", into=dict)
        entry = {"driver": DRIVER, "pool": "fabric", "device": "gpu-0", "conditions": list(conditions)}
        status = {
            "allocation": replace(wanted.allocation, allocation_timestamp=NOW),
            "devices": [entry] if conditions else None,
        }
        await client.patch(
            *(CLAIMS, "mine", "default", {"status": status}, PatchKind.MERGE), into=dict, subresource="status"
        )
        await client.create(PODS, pod("mine"), "default", into=dict)


async def test_it_says_which_condition_since_when_and_until_when(dradriver: Command, kubeconfig: Path) -> None:
    await waiting(kubeconfig)
    forever = str(10**9)
    result = await explain(dradriver, kubeconfig, "pod-1", "--binding-timeout", forever)
    assert result.exit_code == 0, result.output
    assert "claim default/mine waits for conditions, since 2026-01-01T00:00:00Z" in result.stdout
    assert ", until 20" in result.stdout
    assert f"device {DRIVER}/fabric/gpu-0: attached" in result.stdout
    assert (
        f"nobody has set attached on any claim of this cluster: does the controller of driver {DRIVER} run?"
        in (result.stdout)
    )


async def test_it_says_what_failed(dradriver: Command, kubeconfig: Path) -> None:
    failed = {
        "type": "attach-failed",
        "status": "True",
        "reason": "NoLink",
        "message": "port 3 is dark",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await waiting(kubeconfig, failed)
    result = await explain(dradriver, kubeconfig, "pod-1")
    assert "attach-failed (NoLink): port 3 is dark" in result.stdout
    assert "claim default/mine failed" in result.stdout


async def test_a_pod_that_does_not_exist_is_one_line(dradriver: Command, kubeconfig: Path) -> None:
    result = await explain(dradriver, kubeconfig, "nobody")
    assert result.exit_code == 1
    assert result.stderr == "Error: there is no pod nobody in the namespace default\n"
