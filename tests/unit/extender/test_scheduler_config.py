"""The configuration of kube-scheduler, field by field."""

from datetime import timedelta
from typing import Any

import pytest

from dradriver.errors import UsageError
from dradriver.extender.scheduler_config import KubeSchedulerSettings, build_config
from dradriver.model.core.lease import LeaseTiming

LOCAL = "http://127.0.0.1:9444"
FILES: dict[str, Any] = {"ca_file": "/tls/ca.crt", "cert_file": "/tls/tls.crt", "key_file": "/tls/tls.key"}


def test_a_local_extender_needs_no_certificates() -> None:
    assert build_config(KubeSchedulerSettings(url=LOCAL)) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": 500, "burst": 1000},
        "leaderElection": {
            "leaderElect": True,
            "leaseDuration": "9s",
            "renewDeadline": "6s",
            "retryPeriod": "1.2s",
            "resourceLock": "leases",
            "resourceName": "dradriver-kube-scheduler",
            "resourceNamespace": "kube-system",
        },
        "percentageOfNodesToScore": 100,
        "profiles": [
            {
                "schedulerName": "dradriver",
                "plugins": {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}},
            }
        ],
        "extenders": [
            {
                "urlPrefix": LOCAL,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "weight": 1,
                "httpTimeout": "5s",
                "nodeCacheCapable": True,
                "ignorable": False,
            },
            {
                "urlPrefix": LOCAL,
                "bindVerb": "bind",
                "httpTimeout": "630s",
                "nodeCacheCapable": True,
                "ignorable": False,
            },
        ],
    }


def test_both_sides_of_https_verify_certificates() -> None:
    settings = KubeSchedulerSettings(url="https://dradriver.kube-system.svc:9444/", **FILES)
    tls = {"caFile": "/tls/ca.crt", "certFile": "/tls/tls.crt", "keyFile": "/tls/tls.key"}
    for entry in build_config(settings)["extenders"]:
        assert (entry["urlPrefix"], entry["enableHTTPS"]) == ("https://dradriver.kube-system.svc:9444", True)
        assert entry["tlsConfig"] == tls


def test_each_profile_has_the_plugin_disabled() -> None:
    profiles = build_config(KubeSchedulerSettings(url=LOCAL, scheduler_names=("a", "b")))["profiles"]
    assert [each["schedulerName"] for each in profiles] == ["a", "b"]
    assert all(each["plugins"]["multiPoint"]["disabled"] == [{"name": "DynamicResources"}] for each in profiles)


def test_the_scores_of_devices_can_outweigh_all_plugins() -> None:
    config = build_config(KubeSchedulerSettings(url=LOCAL, prefers_devices=True))
    weight = config["extenders"][0]["weight"]
    # kube-scheduler scales the scores of an extender by 10. The default plugins have weights of 12 in sum.
    assert weight * 10 > 12 * 100
    assert "weight" not in config["extenders"][1]


@pytest.mark.parametrize(("seconds", "timeout"), [(0.5, "31s"), (600, "630s"), (86400, "86430s")])
def test_a_bind_ends_after_the_binding_timeout(seconds: float, timeout: str) -> None:
    settings = KubeSchedulerSettings(url=LOCAL, binding_timeout=timedelta(seconds=seconds))
    assert build_config(settings)["extenders"][1]["httpTimeout"] == timeout


def test_all_other_settings_are_written() -> None:
    settings = KubeSchedulerSettings(
        url=LOCAL, kubeconfig="/k", leader_elect=False, lease_name="l", lease_namespace="n",
        timing=LeaseTiming(16), qps=1, burst=2,
    )  # fmt: skip
    config = build_config(settings)
    assert config["clientConnection"] == {"kubeconfig": "/k", "qps": 1, "burst": 2}
    assert config["leaderElection"] == {
        "leaderElect": False, "leaseDuration": "16s", "renewDeadline": "10.6667s", "retryPeriod": "2.13333s",
        "resourceLock": "leases", "resourceName": "l", "resourceNamespace": "n",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"url": "127.0.0.1:9444"}, "must be http://HOST:PORT or https://HOST:PORT"),
        ({"url": "http://127.0.0.1"}, "must be http://HOST:PORT"),
        ({"url": "http://127.0.0.1:x"}, "--url http://127.0.0.1:x: "),
        ({"url": "unix://127.0.0.1:1"}, "must be http://HOST:PORT"),
        ({"url": "http://127.0.0.1:1/a"}, "must have no path"),
        ({"url": "http://10.0.0.1:9444"}, "plain HTTP is possible only to 127.0.0.1"),
        ({"url": "https://a:1"}, "https needs --ca-file, --cert-file, --key-file"),
        ({"url": "https://a:1", **FILES, "ca_file": ""}, "https needs --ca-file, because"),
        ({"url": LOCAL, "ca_file": "/ca"}, "--ca-file needs https"),
        ({"url": LOCAL, "scheduler_names": ("a", "b", "a")}, "--scheduler-name a: is given twice"),
        ({"url": LOCAL, "scheduler_names": ("",)}, "--scheduler-name: must not be empty"),
    ],
)
def test_settings_that_contradict_each_other_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as rejected:
        build_config(KubeSchedulerSettings(**given))
    assert message in str(rejected.value)
