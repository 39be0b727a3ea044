"""The chart's kube-scheduler and extender fit together."""

from datetime import timedelta
from typing import Any

import pytest
import yaml

from dradriver.cli.scheduler.run import run
from dradriver.extender.scheduler_config import KubeSchedulerSettings, build_config
from tests.e2e.chart.helm import Helm, Manifests, find_manifest, set_values

pytestmark = pytest.mark.e2e

NAME = "release-dradriver-scheduler"
LEASE = f"{NAME}-kube-scheduler"


def scheduler(helm: Helm, *arguments: str, **given: object) -> Manifests:
    values = {
        "image.repository": "registry.example.com/d",
        "scheduler.enabled": True,
        "scheduler.kubeScheduler.image.repository": "registry.example.com/kube-scheduler",
        **{f"scheduler.{name}": value for name, value in given.items()},
    }
    return helm.template(*set_values(values), *arguments)


def pod(manifests: Manifests) -> dict[str, Any]:
    return dict(find_manifest(manifests, "Deployment")["spec"]["template"]["spec"])


def configuration(manifests: Manifests) -> dict[str, Any]:
    return dict(yaml.safe_load(find_manifest(manifests, "ConfigMap")["data"]["config.yaml"]))


def options(manifests: Manifests) -> dict[str, Any]:
    """Return the options of the extender, as the command reads them."""
    words = pod(manifests)["containers"][0]["args"]
    assert words[:2] == ["scheduler", "run"]
    return run.make_context("run", words[2:]).params


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({}, KubeSchedulerSettings(url="http://127.0.0.1:9444")),
        (
            {
                "schedulerNames": ["a", "b"],
                "order": "packed",
                "bindingTimeoutSeconds": 60,
                "port": 9555,
                "kubeScheduler.qps": 5,
                "kubeScheduler.burst": 6,
            },
            KubeSchedulerSettings(
                url="http://127.0.0.1:9555",
                scheduler_names=("a", "b"),
                prefers_devices=True,
                binding_timeout=timedelta(seconds=60),
                qps=5,
                burst=6,
            ),
        ),
    ],
    ids=["defaults", "all"],
)
def test_its_configuration_is_that_of_the_command(
    helm: Helm, given: dict[str, object], settings: KubeSchedulerSettings
) -> None:
    expected = build_config(settings)
    expected["leaderElection"] |= {"resourceName": LEASE, "resourceNamespace": "devices"}
    assert configuration(scheduler(helm, **given)) == expected


def test_the_extender_gets_its_options(helm: Helm) -> None:
    read = options(
        scheduler(
            helm, schedulerNames=["a", "b"], order="packed", bindingTimeoutSeconds=60, port=9555,
            metricsPort=9124, budgetMilliseconds=500, profiling=True, featureGates={"A": True, "B": False},
        )
    )  # fmt: skip
    assert read["scheduler_names"] == ("a", "b")
    assert (read["order"], read["budget"], read["feature_gates"]) == ("packed", 500_000, "A=true,B=false")
    assert (read["binding_timeout"], read["port"], read["metrics_port"]) == (60, 9555, 9124)
    assert read["profiling"] is True


def test_the_extender_follows_the_kube_scheduler_of_its_pod(helm: Helm) -> None:
    manifests = scheduler(helm)
    read, election = options(manifests), configuration(manifests)["leaderElection"]
    assert election["leaderElect"] is True
    assert read["kube_scheduler_lease"] == f"{election['resourceNamespace']}/{election['resourceName']}"
    assert (read["lease_namespace"], read["lease_name"]) == ("devices", NAME)
    assert read["leader_elect"] is True


def test_no_other_pod_reaches_the_verbs(helm: Helm) -> None:
    manifests = scheduler(helm, "--set", "networkPolicy.enabled=true")
    assert options(manifests)["host"] == "127.0.0.1"
    ports = {port["containerPort"] for each in pod(manifests)["containers"] for port in each["ports"]}
    assert ports == {8090, 10259}
    assert not [each for each in manifests if each["kind"] == "Service"]
    (ingress,) = find_manifest(manifests, "NetworkPolicy")["spec"]["ingress"]
    assert [port["port"] for port in ingress["ports"]] == ["metrics", "kube-scheduler"]


def test_a_standby_is_ready_and_a_leader_without_its_extender_is_restarted(helm: Helm) -> None:
    extender, kube_scheduler = pod(scheduler(helm))["containers"]
    assert extender["readinessProbe"]["httpGet"] == {"path": "/readyz/standby", "port": "metrics"}
    assert kube_scheduler["livenessProbe"]["httpGet"] == {"path": "/livez", "port": 8090}
    assert kube_scheduler["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_both_containers_have_no_privileges(helm: Helm) -> None:
    spec = pod(scheduler(helm))
    assert spec["securityContext"]["runAsNonRoot"] is True
    for container in spec["containers"]:
        assert container["resources"]["limits"]["memory"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize(("cluster", "tag"), [("v1.36.2", "v1.36.2"), ("v1.35.1-gke.100+abc", "v1.35.1")])
def test_kube_scheduler_has_the_version_of_the_cluster(helm: Helm, cluster: str, tag: str) -> None:
    image = pod(scheduler(helm, "--kube-version", cluster))["containers"][1]["image"]
    assert image == f"registry.example.com/kube-scheduler:{tag}"


def test_the_account_holds_only_the_leases_of_its_pods(helm: Helm) -> None:
    rules = find_manifest(scheduler(helm), "Role")["rules"]
    assert [(rule["resources"], rule["verbs"], rule.get("resourceNames", [])) for rule in rules] == [
        (["leases"], ["create"], []),
        (["leases"], ["get", "update"], [NAME, LEASE]),
    ]


def test_the_account_has_the_roles_of_kube_scheduler_and_the_rights_of_the_extender(helm: Helm) -> None:
    manifests = scheduler(helm)
    bindings = [each for each in manifests if each["kind"] in {"ClusterRoleBinding", "RoleBinding"}]
    assert {each["roleRef"]["name"] for each in bindings} == {
        NAME,
        f"{NAME}-leases",
        "system:kube-scheduler",
        "system:volume-scheduler",
        "extension-apiserver-authentication-reader",
    }
    account = pod(manifests)["serviceAccountName"]
    assert all(
        each["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "devices"}]
        for each in bindings
    )
    rights = {
        resource: rule["verbs"]
        for rule in find_manifest(manifests, "ClusterRole")["rules"]
        for resource in rule["resources"]
    }
    read = ["list", "watch"]
    assert rights == {
        "resourceslices": read, "deviceclasses": read, "resourceclaimtemplates": read, "devicetaintrules": read,
        "nodes": read, "poddisruptionbudgets": read,
        "pods": ["get", "list", "watch", "patch", "delete"], "pods/status": ["patch"],
        "pods/binding": ["create"], "pods/finalizers": ["update"],
        "resourceclaims": ["get", "list", "watch", "create", "patch", "delete"],
        "resourceclaims/status": ["patch"], "resourceclaims/binding": ["patch"],
        "events": ["create", "patch"],
    }  # fmt: skip


def test_a_changed_configuration_starts_new_pods(helm: Helm) -> None:
    def checksum(manifests: Manifests) -> str:
        annotations = find_manifest(manifests, "Deployment")["spec"]["template"]["metadata"]["annotations"]
        return str(annotations["checksum/config"])

    assert checksum(scheduler(helm)) != checksum(scheduler(helm, bindingTimeoutSeconds=60))


def test_one_standby_at_a_time_is_evicted(helm: Helm) -> None:
    assert find_manifest(scheduler(helm), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert not [each for each in scheduler(helm, replicas=1) if each["kind"] == "PodDisruptionBudget"]


def test_its_metrics_are_monitored(helm: Helm) -> None:
    manifests = scheduler(helm, "--set", "podMonitor.mode=always")
    assert find_manifest(manifests, "PodMonitor")["metadata"]["name"] == NAME
