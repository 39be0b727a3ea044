"""An invalid value is named in the error, and nothing is rendered."""

import pytest

from tests.e2e.chart.helm import Helm, HelmError, set_values

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
    "folders of a node for a pool driver": (
        {"drivers.mine": {"driverName": "a.b", "kind": "pool", "paths": [{"path": "/dev"}]}},
        "/drivers/mine/paths",
    ),
    "key of another driver's policy": (
        {"drivers.x-claims": {"driverName": "a.b"}},
        "invalid propertyName 'x-claims'",
    ),
    "usage notes without attaching": (
        {"drivers.mine": {"enabled": True, "driverName": "a.b", "nodeReleases": True}},
        "drivers.mine.nodeReleases: requires drivers.mine.bindingDriver",
    ),
    "owner of a node's slices": (
        {"drivers.mine": {"driverName": "a.b", "owner": "deviceclass/a.b"}},
        "/drivers/mine/owner",
    ),
    "owner that can't own slices": (
        {"drivers.mine": {"driverName": "a.b", "kind": "pool", "owner": "deployment/a"}},
        "/drivers/mine/owner",
    ),
    "two drivers of one name": (
        {
            "drivers.one": {"enabled": True, "driverName": "a.b"},
            "drivers.two": {"enabled": True, "driverName": "a.b"},
        },
        "drivers.one and drivers.two: both are node drivers with driverName a.b",
    ),
    "scheduler without the image of kube-scheduler": (
        {"scheduler.enabled": True},
        "scheduler.kubeScheduler.image.repository: the repository of the image kube-scheduler is required",
    ),
    "scheduler without an image": (
        {"scheduler.enabled": True, "scheduler.kubeScheduler.image.repository": "k", "image.repository": ""},
        "image.repository or scheduler.image.repository: the repository of the image is required",
    ),
    "name of the cluster's own kube-scheduler": (
        {
            "scheduler.enabled": True,
            "scheduler.schedulerNames": ["dradriver", "default-scheduler"],
            "scheduler.kubeScheduler.image.repository": "k",
        },
        "scheduler.schedulerNames: default-scheduler is the name of the cluster's own kube-scheduler",
    ),
    "scheduler without a profile": ({"scheduler.schedulerNames": []}, "/scheduler/schedulerNames"),
    "order that is none": ({"scheduler.order": "random"}, "'ordered', 'packed'"),
    "key of the scheduler": ({"drivers.scheduler": {"driverName": "a.b"}}, "invalid propertyName 'scheduler'"),
    "a class twice": (
        {
            "drivers.one": {"enabled": True, "driverName": "a.b", "deviceClasses": [{"name": "c"}]},
            "drivers.two": {"enabled": True, "driverName": "a.c", "deviceClasses": [{"name": "c"}]},
        },
        "drivers.one.deviceClasses and drivers.two.deviceClasses: both have a DeviceClass c",
    ),
    "labels of the chart": ({"commonLabels": {"helm.sh/chart": "x"}}, "invalid propertyName 'helm.sh/chart'"),
    "own certificate without a name": (
        {"drivers.loop.enabled": True, "drivers.loop.webhook": {"enabled": True, "certificate": "secret"}},
        "drivers.loop.webhook.secretName: required",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_error_names_the_value(helm: Helm, case: str) -> None:
    values, words = WRONG[case]
    with pytest.raises(HelmError) as refused:
        helm.template(*set_values({"image.repository": "registry.example.com/d", **values}))
    assert words in str(refused.value)


def test_a_name_that_no_service_can_have_is_rejected_with_a_service(helm: Helm) -> None:
    given = {"image.repository": "d", "drivers.loop": {"enabled": True, "webhook": {"enabled": True}}}
    with pytest.raises(HelmError, match=r"fullnameOverride: must be set.*not 1-dradriver-loop-webhook"):
        helm.template(*set_values(given), release="1")


def test_one_driver_can_run_with_two_settings_on_two_kinds_of_nodes(helm: Helm) -> None:
    drivers = {
        f"drivers.{kind}": {"enabled": True, "driverName": "a.b", "nodeSelector": {"kind": kind}}
        for kind in ("one", "two")
    }
    assert helm.template(*set_values({"image.repository": "registry.example.com/d", **drivers}))


def test_an_older_kubernetes_is_rejected(helm: Helm) -> None:
    with pytest.raises(HelmError, match=r"requires kubeVersion: >=1\.34"):
        helm.template("--kube-version", "1.33.0")
