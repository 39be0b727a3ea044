"""Properties of every rendering of the chart, for all values."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.chart.helm import CHART, VALUES, Helm, HelmError, Manifests, find_manifest, set_values

pytestmark = pytest.mark.e2e


def images(manifests: Manifests, key: str) -> str:
    return str(
        driver_pod(find_manifest(manifests, "DaemonSet", f"release-dradriver-{key}"))["containers"][0]["image"]
    )


def driver_pod(workload: dict[str, Any]) -> dict[str, Any]:
    return dict(workload["spec"]["template"]["spec"])


def pods(manifests: Manifests) -> Iterator[dict[str, Any]]:
    for each in manifests:
        if each["kind"] in {"DaemonSet", "Deployment"}:
            yield driver_pod(each)


def loop(helm: Helm, *arguments: str, release: str = "release") -> Manifests:
    given = ("--set", "drivers.loop.enabled=true", "--set", "image.repository=registry.example.com/d")
    return helm.template(*given, *arguments, release=release)


@pytest.fixture(params=VALUES, ids=lambda path: path.name.removesuffix("-values.yaml"))
def values(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture
def manifests(helm: Helm, values: Path) -> Manifests:
    return helm.template("-f", str(values))


def test_it_passes_helm_lint(helm: Helm, values: Path) -> None:
    assert "0 chart(s) failed" in helm.lint("-f", str(values))


def test_without_a_driver_it_has_no_objects(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.lint()
    assert helm.template() == []


def test_no_object_occurs_twice(manifests: Manifests) -> None:
    names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in manifests]
    assert len(set(names)) == len(names)


def test_every_probe_has_a_time_limit(manifests: Manifests) -> None:
    for pod in pods(manifests):
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert pod["containers"][0][kind]["timeoutSeconds"] > 0


def test_each_container_has_limits(manifests: Manifests) -> None:
    for pod in pods(manifests):
        container = pod["containers"][0]
        assert container["resources"]["limits"]["memory"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_pods_that_other_pods_wait_for_have_a_priority_class(manifests: Manifests) -> None:
    for pod in pods(manifests):
        assert pod.get("priorityClassName") or pod["containers"][0]["name"] == "dashboard"


def test_a_new_driver_runs_before_the_old_one_ends(helm: Helm) -> None:
    spec = find_manifest(loop(helm), "DaemonSet")["spec"]
    assert spec["updateStrategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    env = {each["name"]: each for each in driver_pod({"spec": spec})["containers"][0]["env"]}
    assert env["POD_UID"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.uid"
    assert env["NODE_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"


def test_two_drivers_never_share_a_port_of_the_host(helm: Helm) -> None:
    spec = find_manifest(loop(helm, "--set", "drivers.loop.hostNetwork=true"), "DaemonSet")["spec"]
    assert spec["updateStrategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_a_driver_has_no_privileges_on_its_node_by_default(helm: Helm) -> None:
    pod = driver_pod(find_manifest(loop(helm), "DaemonSet"))
    assert pod["containers"][0]["securityContext"] == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not pod.get("hostNetwork")
    assert not pod.get("hostPID")


@pytest.mark.parametrize("release", ["release", "other", "dradriver-of-the-laboratory-for-hardware-tests"])
def test_the_policy_names_the_account_of_the_pods(helm: Helm, release: str) -> None:
    manifests = loop(helm, release=release)
    account = driver_pod(find_manifest(manifests, "DaemonSet"))["serviceAccountName"]
    assert find_manifest(manifests, "ServiceAccount", account)["metadata"]["namespace"] == "devices"
    condition = find_manifest(manifests, "ValidatingAdmissionPolicy")["spec"]["matchConditions"][0][
        "expression"
    ]
    assert condition == f'request.userInfo.username == "system:serviceaccount:devices:{account}"'
    subject = find_manifest(manifests, "ClusterRoleBinding")["subjects"][0]
    assert (subject["name"], subject["namespace"]) == (account, "devices")
    assert len(account) <= 55


def test_the_folders_of_the_kubelet_follow_its_root(helm: Helm) -> None:
    pod = driver_pod(find_manifest(loop(helm, "--set", "kubeletRootDir=/k/"), "DaemonSet"))
    paths = {each["name"]: each["hostPath"]["path"] for each in pod["volumes"]}
    mounts = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert paths == mounts
    assert paths["plugins"] == "/k/plugins/loop.example.com"
    assert paths["registry"] == "/k/plugins_registry"
    env = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert (env["DRADRIVER_PLUGINS_DIR"], env["DRADRIVER_REGISTRY_DIR"]) == (
        "/k/plugins",
        "/k/plugins_registry",
    )


def test_a_driver_whose_folder_is_too_long_for_a_socket_gets_the_parent(helm: Helm) -> None:
    root = "/var/" + "long" * 20
    pod = driver_pod(find_manifest(loop(helm, "--set", f"kubeletRootDir={root}"), "DaemonSet"))
    paths = {each["name"]: each["hostPath"]["path"] for each in pod["volumes"]}
    assert paths["plugins"] == f"{root}/plugins"


def test_a_driver_can_have_its_own_image(helm: Helm) -> None:
    manifests = helm.template("-f", str(next(path for path in VALUES if path.name.startswith("everything"))))
    assert images(manifests, "loop") == "registry.example.com/dradriver:1.2.3"
    assert images(manifests, "other").startswith("registry.example.com/other@sha256:")


def test_the_ca_bundle_of_the_webhook_matches_its_certificate(helm: Helm) -> None:
    manifests = loop(helm, "--set", "drivers.loop.webhook.enabled=true")
    secret = find_manifest(manifests, "Secret")
    webhook = find_manifest(manifests, "ValidatingWebhookConfiguration")["webhooks"][0]
    assert webhook["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]
    service = find_manifest(manifests, "Service")["metadata"]["name"]
    assert webhook["clientConfig"]["service"]["name"] == service
    volumes = driver_pod(find_manifest(manifests, "Deployment"))["volumes"]
    assert volumes[0]["secret"]["secretName"] == secret["metadata"]["name"]


def test_the_webhook_gets_no_token(helm: Helm) -> None:
    pod = driver_pod(find_manifest(loop(helm, "--set", "drivers.loop.webhook.enabled=true"), "Deployment"))
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True


def pool_driver(helm: Helm, **settings: object) -> Manifests:
    given = {"enabled": True, "kind": "pool", "driverName": "fabric.example.com", **settings}
    return helm.template(*set_values({"image.repository": "registry.example.com/d", "drivers.fabric": given}))


def test_a_pool_driver_runs_once_without_access_to_a_node(helm: Helm) -> None:
    manifests = pool_driver(helm, owner="deviceclass/fabric.example.com")
    assert not [each for each in manifests if each["kind"] == "DaemonSet"]
    spec = find_manifest(manifests, "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    pod = driver_pod({"spec": spec})
    assert not pod["volumes"]
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 65532)
    assert "tolerations" not in pod
    env = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    assert env["DRADRIVER_OWNER"] == "deviceclass/fabric.example.com"
    assert not {"NODE_NAME", "POD_UID", "DRADRIVER_PLUGINS_DIR"} & env.keys()


def test_a_pool_driver_can_hold_only_its_own_lease(helm: Helm) -> None:
    manifests = pool_driver(helm)
    rules = find_manifest(manifests, "Role")["rules"]
    assert [(rule["resources"], rule["verbs"], rule.get("resourceNames", [])) for rule in rules] == [
        (["leases"], ["create"], []),
        (["leases"], ["get", "update"], ["fabric.example.com"]),
    ]
    assert (
        find_manifest(manifests, "RoleBinding")["roleRef"]["name"]
        == find_manifest(manifests, "Role")["metadata"]["name"]
    )


def test_values_of_node_drivers_are_rejected_for_a_pool_driver(helm: Helm) -> None:
    given = {"paths": [{"path": "/dev"}], "hostNetwork": True, "webhook": {"enabled": True}}
    driver = {"enabled": True, "kind": "pool", "driverName": "fabric.example.com"}
    values = {"image.repository": "d", "driverDefaults": given, "drivers.fabric": driver}
    manifests = helm.template(*set_values(values))
    pod = driver_pod(find_manifest(manifests, "Deployment"))
    assert "hostNetwork" not in pod
    assert not pod["volumes"]


def rules(manifests: Manifests) -> dict[str, tuple[list[str], list[str]]]:
    """Return verbs and names by resource."""
    rules = find_manifest(manifests, "ClusterRole")["rules"]
    return {rule["resources"][0]: (rule["verbs"], rule.get("resourceNames", [])) for rule in rules}


@pytest.mark.parametrize(
    ("owner", "resource", "name"),
    [("deviceclass/a.b", "deviceclasses", "a.b"), ("namespace/devices", "namespaces", "devices")],
)
def test_a_pool_driver_reads_its_owner_and_writes_only_slices(
    helm: Helm, owner: str, resource: str, name: str
) -> None:
    assert rules(pool_driver(helm, owner=owner)) == {
        "resourceslices": (["get", "list", "watch", "create", "update", "delete"], []),
        "resourceclaims": (["list"], []),
        resource: (["get"], [name]),
    }


def test_only_a_driver_of_claims_on_several_nodes_writes_their_status(helm: Helm) -> None:
    verbs, names = rules(loop(helm, "--set", "drivers.loop.multiNodeClaims=true"))["resourceclaims/driver"]
    assert (verbs, names) == (["associated-node:patch", "arbitrary-node:patch"], ["loop.example.com"])
    assert rules(loop(helm))["resourceclaims/driver"][0] == ["associated-node:patch"]


def test_a_binding_driver_reads_claims_and_writes_its_record_and_its_conditions(helm: Helm) -> None:
    assert rules(pool_driver(helm, bindingDriver=True)) == {
        "resourceslices": (["get", "list", "watch", "create", "update", "delete"], []),
        "resourceclaims": (["get", "list", "watch", "patch"], []),
        "resourceclaims/status": (["patch"], []),
        "resourceclaims/driver": (["arbitrary-node:patch"], ["fabric.example.com"]),
        "pods": (["get"], []),
        "events": (["create", "patch"], []),
    }


def test_a_binding_driver_of_nodes_watches_claims_and_changes_no_metadata(helm: Helm) -> None:
    manifests = loop(helm, "--set", "drivers.loop.bindingDriver=true")
    assert rules(manifests)["resourceclaims"] == (["get", "list", "watch"], [])
    assert rules(manifests)["resourceclaims/driver"] == (["associated-node:patch"], ["loop.example.com"])
    policies = [m["metadata"]["name"] for m in manifests if m["kind"] == "ValidatingAdmissionPolicy"]
    assert policies == ["release-dradriver-loop"]


def test_only_a_binding_driver_has_a_policy_for_claims(helm: Helm) -> None:
    def policies(manifests: Manifests) -> set[str]:
        return {m["metadata"]["name"] for m in manifests if m["kind"] == "ValidatingAdmissionPolicy"}

    name = "release-dradriver-fabric"
    assert policies(pool_driver(helm)) == {name}
    assert policies(pool_driver(helm, bindingDriver=True)) == {name, f"{name}-claims"}
    assert policies(pool_driver(helm, bindingDriver=True, admissionPolicy={"enabled": False})) == set()


def test_nodes_write_only_their_own_usage_note_and_the_pool_driver_reads_all(helm: Helm) -> None:
    def role(manifests: Manifests) -> list[str]:
        (rule,) = find_manifest(manifests, "Role", usage)["rules"]
        assert rule["resources"] == ["configmaps"]
        return list(rule["verbs"])

    pool = pool_driver(helm, bindingDriver=True, nodeReleases=True)
    usage = "release-dradriver-fabric-usage"
    assert role(pool) == ["get", "list"]
    assert rules(pool)["nodes"] == (["get"], [])
    assert not [m for m in pool if m["kind"] == "ValidatingAdmissionPolicy" and m["metadata"]["name"] == usage]
    given = ("bindingDriver=true", "nodeReleases=true", "admissionPolicy.enabled=false")
    node = loop(helm, *(word for each in given for word in ("--set", f"drivers.loop.{each}")))
    usage = "release-dradriver-loop-usage"
    assert role(node) == ["get", "create", "update"]
    policy = find_manifest(node, "ValidatingAdmissionPolicy", usage)["spec"]
    assert policy["matchConstraints"]["resourceRules"][0]["operations"] == ["CREATE", "UPDATE", "DELETE"]
    assert policy["variables"][1]["expression"] == "'loop.example.com-' + variables.node"
    assert find_manifest(node, "ValidatingAdmissionPolicyBinding", usage)["spec"]["policyName"] == usage


@pytest.mark.parametrize("release", ["1", "true", "2026-01-01", "a.b", "x" * 53, f"{'x' * 24}.{'y' * 28}"])
def test_unusual_names_stay_strings(helm: Helm, release: str) -> None:
    manifests = loop(helm, "--set", "fullnameOverride=", release=release)
    for each in manifests:
        name = each["metadata"]["name"]
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) or each["kind"] == "DeviceClass"
        assert len(name) <= 63
        assert all(isinstance(value, str) for value in each["metadata"]["labels"].values())


def test_a_webhook_of_a_driver_with_a_short_name_has_a_name_of_three_parts(helm: Helm) -> None:
    driver = {"enabled": True, "driverName": "gpu", "webhook": {"enabled": True}}
    values = {"image.repository": "registry.example.com/d", "drivers.gpu": driver}
    manifests = helm.template(*set_values(values))
    (webhook,) = find_manifest(manifests, "ValidatingWebhookConfiguration")["webhooks"]
    assert webhook["name"] == "parameters.gpu.dradriver"


def test_its_readme_names_every_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    names = {
        name
        for section in (
            values,
            values["driverDefaults"],
            values["image"],
            values["driverDefaults"]["webhook"],
            values["scheduler"],
            values["scheduler"]["kubeScheduler"],
        )
        for name in section
    }
    text = (CHART / "README.md").read_text()
    # Written `name`, `section.name` or `.name`.
    assert not [name for name in names if not re.search(rf"[`.]{name}[`.]", text)]


def test_every_image_names_a_version(manifests: Manifests) -> None:
    for pod in pods(manifests):
        assert re.search(r":[0-9a-z.]+$", pod["containers"][0]["image"])


def test_settings_of_a_driver_reach_it_unchanged(helm: Helm) -> None:
    from dradriver_gpu_mig.settings import Mode, read_settings

    manifests = helm.template("-f", str(CHART / "ci" / "gpu-mig-values.yaml"))
    env = driver_pod(find_manifest(manifests, "DaemonSet"))["containers"][0]["env"]
    (text,) = (each["value"] for each in env if each["name"] == "GPU_MIG_SETTINGS")
    assert read_settings(text, "new-1").mode is Mode.DYNAMIC
    assert read_settings(text, "old-1").mode is Mode.STATIC
    host = read_settings(text, "old-1").host
    assert (host.root, host.driver_root) == ("/host", "/host")


def test_settings_without_a_variable_are_rejected(helm: Helm) -> None:
    given = ("--set", "drivers.loop.enabled=true,image.repository=d,drivers.loop.settings.mode=x")
    with pytest.raises(HelmError, match=r"drivers\.loop\.settingsVariable: required if settings are set"):
        helm.template(*given)


def test_the_classes_of_gpus_select_the_named_devices(helm: Helm, tmp_path: Path) -> None:
    from dradriver.allocator import Refusal
    from dradriver.model.encoding.codec import decode
    from dradriver.model.resource.deviceclass import DeviceClass
    from dradriver.testing import Harness, device_request
    from dradriver_gpu_mig import GpuDriver
    from dradriver_gpu_mig.card.simulator import SimulatedGpus

    manifests = helm.template("-f", str(CHART / "ci" / "gpu-mig-values.yaml"))
    classes = [
        decode(DeviceClass, json.dumps(each).encode()) for each in manifests if each["kind"] == "DeviceClass"
    ]
    chosen = {}
    hardware = SimulatedGpus(["a100-40"])
    with Harness(lambda: GpuDriver("mode: dynamic", hardware), tmp_path, classes=classes) as harness:
        for each in classes:
            with contextlib.suppress(Refusal):
                (result,) = harness.allocate(device_request(each.metadata.name)).results
                chosen[each.metadata.name] = result.device.partition("-mig-")[2]
    assert chosen == {
        "mig.nvidia.com": "1g-5gb-0", "mig-1g.nvidia.com": "1g-5gb-1", "mig-2g.nvidia.com": "2g-10gb-2",
        "mig-3g.nvidia.com": "3g-20gb-4",
    }  # fmt: skip


def fpga(helm: Helm, **settings: object) -> Manifests:
    driver = {"enabled": True, **settings}
    return helm.template(*set_values({"image.repository": "d", "drivers.fpga": driver}))


def kinds(manifests: Manifests, kind: str) -> set[tuple[str, str]]:
    """Return namespaces and names of objects of a kind."""
    return {
        (each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for each in manifests
        if each["kind"] == kind
    }


def test_config_maps_are_read_only_in_the_listed_namespaces(helm: Helm) -> None:
    for manifests in (loop(helm), fpga(helm), fpga(helm, readConfigMaps=["a", "b"])):
        assert "configmaps" not in rules(manifests)
    assert not kinds(fpga(helm), "Role")
    manifests = fpga(helm, readConfigMaps=["a", "b"])
    names = {(namespace, "release-dradriver-fpga") for namespace in ("a", "b")}
    assert kinds(manifests, "Role") == kinds(manifests, "RoleBinding") == names
    for each in manifests:
        if each["kind"] == "Role":
            assert each["rules"] == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
        if each["kind"] == "RoleBinding":
            assert (each["roleRef"]["kind"], each["subjects"][0]["namespace"]) == ("Role", "devices")
    with pytest.raises(HelmError, match="readConfigMaps"):
        fpga(helm, readConfigMaps=True)


def test_the_class_for_programming_cards_exists_only_if_it_is_enabled(helm: Helm) -> None:
    name = ("", "fpga-management.example.com")
    assert name not in kinds(fpga(helm), "DeviceClass")
    assert name in kinds(fpga(helm, settings={"managementDevices": True}), "DeviceClass")


def test_the_classes_of_fpgas_select_the_named_devices(helm: Helm, tmp_path: Path) -> None:
    from dradriver.model.encoding.codec import decode
    from dradriver.model.resource.deviceclass import DeviceClass
    from dradriver.testing import Harness, device_request
    from dradriver_fpga import FpgaDriver
    from dradriver_fpga.card.simulator import SimulatedFpgas

    manifests = helm.template("-f", str(CHART / "ci" / "fpga-values.yaml"))
    env = driver_pod(find_manifest(manifests, "DaemonSet"))["containers"][0]["env"]
    (text,) = (each["value"] for each in env if each["name"] == "FPGA_SETTINGS")
    classes = [
        decode(DeviceClass, json.dumps(each).encode()) for each in manifests if each["kind"] == "DeviceClass"
    ]
    hardware = SimulatedFpgas(["pac"])
    with Harness(lambda: FpgaDriver(text, hardware), tmp_path, classes=classes) as harness:
        names = [each.metadata.name for each in classes]
        found = {name: harness.allocate(device_request(name)).results[0].device for name in names[:2]}
    assert found == {
        "fpga-slot.example.com": "pci-0000-3b-00-0-slot-0-0",
        "fpga-region.example.com": "pci-0000-3b-00-0-region-1",
    }
