"""A value that can't be is named, and nothing is rendered."""

import pytest

from tests.e2e.helm import Helm, HelmError, set_values

pytestmark = pytest.mark.e2e

WRONG: dict[str, tuple[dict[str, object], str]] = {
    "unknown value": ({"images": {}}, "additional properties 'images' not allowed"),
    "unknown value of a driver": ({"drivers.loop.enable": True}, "additional properties 'enable' not allowed"),
    "driver without a name": ({"drivers.mine": {"enabled": True}}, "missing property 'driverName'"),
    "name for all drivers": ({"driverDefaults.driverName": "a.b"}, "/driverDefaults/driverName"),
    "name that is no DNS subdomain": (
        {"drivers.mine": {"driverName": "My_Driver"}},
        "/drivers/mine/driverName",
    ),
    "key that is no DNS label": ({"drivers.My": {"driverName": "a.b"}}, "invalid propertyName 'My'"),
    "key of another driver's webhook": (
        {"drivers.x-webhook": {"driverName": "a.b"}},
        "invalid propertyName 'x-webhook'",
    ),
    "relative path": ({"kubeletRootDir": "var/lib/kubelet"}, "/kubeletRootDir"),
    "address without a port": ({"apiServer.host": "192.0.2.1"}, "/apiServer/port"),
    "probe without a time limit": ({"driverDefaults.livenessProbe": {"timeoutSeconds": 0}}, "timeoutSeconds"),
    "less grace than calls in flight get": (
        {"driverDefaults.terminationGracePeriodSeconds": 10},
        "minimum: got 10",
    ),
    "no metrics, no probes": ({"driverDefaults.metricsPort": 0}, "/driverDefaults/metricsPort"),
    "certificate by magic": ({"drivers.loop.webhook": {"certificate": "magic"}}, "'generated', 'cert-manager'"),
    "no image": ({"drivers.loop.enabled": True, "image.repository": ""}, "drivers.loop.image.repository"),
    "own certificate without a name": (
        {"drivers.loop.enabled": True, "drivers.loop.webhook": {"enabled": True, "certificate": "secret"}},
        "drivers.loop.webhook.secretName is needed",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_it_is_named(helm: Helm, case: str) -> None:
    values, words = WRONG[case]
    with pytest.raises(HelmError) as refused:
        helm.template(*set_values({"image.repository": "registry.example.com/d", **values}))
    assert words in str(refused.value)


def test_an_older_kubernetes_is_refused(helm: Helm) -> None:
    with pytest.raises(HelmError, match=r"requires kubeVersion: >=1\.34"):
        helm.template("--kube-version", "1.33.0")
