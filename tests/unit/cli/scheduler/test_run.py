"""`dradriver scheduler run`."""

import asyncio
import signal
import ssl
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from click.testing import Result

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import LEASES, Client
from dradriver.model.core.lease import Lease
from tests.ports import reserve_port
from tests.unit.admission.certificates import make_pair
from tests.unit.extender.serving.fakes import FILTER, POD, KubeScheduler

Command = Callable[..., Result]


async def test_it_serves_over_mutual_tls_until_a_signal(tmp_path: Path) -> None:
    own, peer = make_pair("extender"), make_pair("kube-scheduler")
    (folder := tmp_path / "peer").mkdir()
    context = ssl.create_default_context(cadata=own.certificate)
    context.load_cert_chain(*peer.write(folder))
    api, kubeconfig, metrics_port = ApiServer(tmp_path / "api"), tmp_path / "kubeconfig", reserve_port()
    await api.start()
    api.write_kubeconfig(kubeconfig)
    cert_file, key_file = own.write(tmp_path)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dradriver.cli", "scheduler", "run", "--kubeconfig", str(kubeconfig),
        "--port", "0", "--metrics-host", "127.0.0.1", "--metrics-port", str(metrics_port),
        "--tls-cert-file", str(cert_file), "--tls-private-key-file", str(key_file),
        "--client-ca-file", str(folder / "tls.crt"), "--lease-name", "of-this-test", stderr=PIPE,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        first = (await process.stderr.readline()).decode()
        assert first.startswith("Serving the kube-scheduler of dradriver on port "), first
        port = int(first.rpartition(" ")[2].rstrip(".\n"))
        async with aiohttp.ClientSession() as session:
            probe = KubeScheduler(session, f"http://127.0.0.1:{metrics_port}")
            while (await probe.get("/readyz"))[0] != 200:
                await asyncio.sleep(0.01)
            kube_scheduler = KubeScheduler(session, f"https://127.0.0.1:{port}", ssl=context)
            claims = [{"name": "gpu", "resourceClaimName": "missing"}]
            pod = {**POD, "spec": {"containers": [{"name": "c"}], "resourceClaims": claims}}
            status, answer = await kube_scheduler.post("filter", {**FILTER, "Pod": pod})
            assert (status, answer["NodeNames"]) == (200, [])
            reason = 'resourceclaim "missing" not found'
            assert answer["FailedAndUnresolvableNodes"] == {"node-1": reason, "node-2": reason}
            _, metrics = await probe.get("/metrics")
            for name in ("dradriver_extender_leading 1.0", "scheduler_pending_pods{"):
                assert f"\n{name}" in metrics
        process.send_signal(signal.SIGTERM)
        _, output = await process.communicate()
        assert process.returncode == 0, output.decode()
        async with await Client.connect(str(kubeconfig)) as client:
            lease = await client.get(LEASES, "of-this-test", "default", into=Lease)
        assert lease.spec.holder_identity == "", "released"
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
        await api.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--host", "0.0.0.0"), "--host 0.0.0.0: plain HTTP is possible only on 127.0.0.1"),
        (("--host", ""), "--host not set (all addresses): plain HTTP is possible only on"),
        (("--tls-cert-file", "a"), "set all three or none; missing: --tls-private-key-file, --client-ca-file"),
        (("--no-leader-elect", "--kube-scheduler-lease", "a"), "--kube-scheduler-lease: needs --leader-elect"),
        (("--scheduler-name", "a", "--scheduler-name", "a"), "--scheduler-name a: is given twice"),
    ],
)
def test_wrong_options_are_one_line(dradriver: Command, options: tuple[str, ...], message: str) -> None:
    result = dradriver("scheduler", "run", *options)
    assert result.exit_code == 2
    assert result.output.startswith("Error: ")
    assert message in result.output
