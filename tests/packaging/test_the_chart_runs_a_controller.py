"""The chart runs a controller that allocates claims (KEP-3063), with definitions and policies."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dradriver.kube.definitions import read_definitions
from dradriver.model.classic.parameters import ControllerClass, read_class_parameters
from dradriver.model.encoding.codec import canonical, decode
from dradriver.model.resource.deviceclass import DeviceClass
from tests.e2e.chart.helm import CHART, Helm, HelmError, Manifests, find_manifest, set_values

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).parents[2] / "examples/classic/node_resources/manifests/controller.yaml"
CONTROLLER = {"enabled": True, "kind": "controller", "driverName": "fabric.example.com"}
SCHEDULER = {"scheduler.enabled": True, "scheduler.kubeScheduler.image.repository": "k"}


def render(helm: Helm, **values: object) -> Manifests:
    given = {"image.repository": "registry.example.com/d", **values}
    return helm.template(*set_values({key.replace("__", "."): value for key, value in given.items()}))


def controller(helm: Helm, **settings: object) -> Manifests:
    return render(helm, drivers__fabric={**CONTROLLER, **settings})


def rules(role: dict[str, Any]) -> set[tuple[str, str, tuple[str, ...]]]:
    """Return resource, verb and names of each rule."""
    return {
        (resource, verb, tuple(rule.get("resourceNames", ())))
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_a_controller_runs_once_without_access_to_a_node(helm: Helm) -> None:
    manifests = controller(helm)
    assert not [each for each in manifests if each["kind"] == "DaemonSet"]
    policies = [each for each in manifests if each["kind"] == "ValidatingAdmissionPolicy"]
    (rule,) = [rule for each in policies for rule in each["spec"]["matchConstraints"]["resourceRules"]]
    assert rule["resources"] == ["resourceclaims/status"], "no policy for ResourceSlices"
    spec = find_manifest(manifests, "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    pod = spec["template"]["spec"]
    assert not pod["volumes"]
    assert pod["securityContext"]["runAsNonRoot"]


@pytest.mark.parametrize(
    "settings",
    [{}, {"kind": "pool", "bindingDriver": True, "controllerDriver": True}],
    ids=["own", "of a pool"],
)
def test_a_controller_allocates_only_claims_with_its_finalizer(helm: Helm, settings: dict[str, Any]) -> None:
    name = "release-dradriver-fabric-allocations"
    policy = find_manifest(controller(helm, **settings), "ValidatingAdmissionPolicy", name)["spec"]
    account = "system:serviceaccount:devices:release-dradriver-fabric"
    assert policy["matchConditions"][0]["expression"] == f'request.userInfo.username == "{account}"'
    (rule,) = policy["validations"]
    assert rule["expression"].startswith("'fabric.example.com/deletion-protection' in ")
    off = controller(helm, **settings, admissionPolicy={"enabled": False})
    assert name not in {each["metadata"]["name"] for each in off}


def test_a_controller_has_least_privilege(helm: Helm) -> None:
    manifests = controller(helm)
    found = rules(find_manifest(manifests, "ClusterRole"))
    assert found == {
        *(("resourceclaims", verb, ()) for verb in ("get", "list", "watch", "patch")),
        ("resourceclaims/status", "patch", ()),
        ("resourceclaims/binding", "patch", ()),
        *((each, verb, ()) for each in ("deviceclasses", "pods") for verb in ("list", "watch")),
        *(("podschedulingcontexts", verb, ()) for verb in ("list", "watch")),
        ("podschedulingcontexts/status", "patch", ()),
        *(
            ("controllerallocations", verb, ())
            for verb in ("get", "list", "watch", "create", "patch", "delete")
        ),
        ("leases", "get", ("fabric.example.com",)),
        ("controllers", "negotiate", ("fabric.example.com",)),
        *(("events", verb, ()) for verb in ("create", "patch")),
    }
    assert rules(find_manifest(manifests, "Role")) == {
        ("leases", "create", ()),
        ("leases", "get", ("fabric.example.com",)),
        ("leases", "update", ("fabric.example.com",)),
    }


def test_the_manifest_of_the_example_has_the_rights_that_the_chart_gives(helm: Helm) -> None:
    (mine,) = (each for each in yaml.safe_load_all(EXAMPLE.read_text("utf-8")) if each["kind"] == "ClusterRole")
    manifests = controller(helm, driverName="scratch.example.com")
    assert rules(mine) == rules(find_manifest(manifests, "ClusterRole"))


def test_a_controller_reads_the_listed_kinds_of_parameters_and_no_secrets(helm: Helm) -> None:
    kinds = [{"apiGroup": "fabric.example.com", "resource": "fabrics"}]
    found = rules(find_manifest(controller(helm, parameterKinds=kinds), "ClusterRole"))
    assert ("fabrics", "get", ()) in found
    with pytest.raises(HelmError, match="/drivers/fabric/parameterKinds/0/resource"):
        controller(helm, parameterKinds=[{"apiGroup": "", "resource": "secrets"}])


FABRIC = {"enabled": True, "controllerDriver": True, "settings": {"handedOutBy": "controller"}}


def test_a_pool_driver_that_is_a_controller_has_the_permissions_of_both(helm: Helm) -> None:
    pool = {"kind": "pool", "bindingDriver": True}
    manifests = controller(helm, **pool, controllerDriver=True)
    wanted = rules(find_manifest(controller(helm), "ClusterRole"))
    wanted |= rules(find_manifest(controller(helm, **pool), "ClusterRole"))
    assert rules(find_manifest(manifests, "ClusterRole")) == wanted
    policies = [each for each in manifests if each["kind"] == "ValidatingAdmissionPolicy"]
    mine = [each for each in policies if each["metadata"]["name"].endswith("-claims")]
    assert "fabric.example.com/deletion-protection" in yaml.safe_dump(mine)


def test_the_classes_of_a_fabric_follow_who_hands_it_out(helm: Helm) -> None:
    def names(**fabric: object) -> set[str]:
        manifests = render(helm, **{"drivers__fabric-cxl-pools": fabric, "drivers__fabric-cxl__enabled": True})
        return {each["metadata"]["name"] for each in manifests if each["kind"] == "DeviceClass"}

    slices = {"cxl-memory.example.com", "cxl-accelerator.example.com"}
    controlled = {"cxl-fabric-memory.example.com", "cxl-fabric-accelerator.example.com"}
    assert names(enabled=True) == slices
    assert names(**FABRIC) == slices | controlled
    manifests = render(helm, **{"drivers__fabric-cxl-pools": FABRIC})
    for each in (body for body in manifests if body["kind"] == "DeviceClass"):
        entry = read_class_parameters(decode(DeviceClass, canonical(each)))
        assert entry is not None
        assert entry.controller_name == "cxl.example.com"


@pytest.mark.parametrize("settings", [{"kind": "pool"}, {"kind": "controller"}, {"kind": "node"}])
def test_only_a_binding_driver_of_the_control_plane_can_be_a_controller_too(
    helm: Helm, settings: dict[str, object]
) -> None:
    with pytest.raises(HelmError, match="controllerDriver"):
        controller(helm, controllerDriver=True, **settings)


def test_a_fabric_that_the_controller_hands_out_needs_its_permissions(helm: Helm) -> None:
    with pytest.raises(HelmError, match=r"cxl-fabric-memory.example.com is byController, which requires"):
        render(helm, **{"drivers__fabric-cxl-pools": {**FABRIC, "controllerDriver": False}})


def test_a_class_of_a_controller_is_never_allocated_from_slices(helm: Helm) -> None:
    terms = [{"matchExpressions": [{"key": "fabric", "operator": "Exists"}]}]
    parameters = {"apiVersion": "fabric.example.com/v1", "kind": "FabricClass", "ports": 2}
    given = {"name": "fabric", "suitableNodes": {"nodeSelectorTerms": terms}, "parameters": [parameters]}
    manifest = find_manifest(controller(helm, deviceClasses=[given]), "DeviceClass")
    entry = read_class_parameters(decode(DeviceClass, canonical(manifest)))
    assert isinstance(entry, ControllerClass)
    assert entry.controller_name == "fabric.example.com"
    assert yaml.safe_load(bytes(entry.parameters)) == parameters
    assert entry.suitable_nodes is not None
    assert entry.suitable_nodes.matches("n", {"fabric": "a"})
    assert not entry.suitable_nodes.matches("n", {})


@pytest.mark.parametrize(
    "settings",
    [
        {"bindingDriver": True},
        {"owner": "namespace/a"},
        {"paths": [{"path": "/dev"}]},
        {"deviceClasses": [{"name": "c", "selectors": ["true"]}]},
        {"deviceClasses": [{"name": "c", "extendedResourceName": "a.com/b"}]},
    ],
    ids=str,
)
def test_settings_of_other_drivers_are_rejected_for_a_controller(helm: Helm, settings: dict[str, Any]) -> None:
    with pytest.raises(HelmError, match="/drivers/fabric/"):
        controller(helm, **settings)


def test_settings_of_a_controller_are_rejected_for_other_drivers(helm: Helm) -> None:
    for kind in ("node", "pool"):
        with pytest.raises(HelmError, match="/drivers/fabric/kubeletPlugins"):
            controller(helm, kind=kind, kubeletPlugins=["card.example.com"])


def test_the_definitions_of_the_chart_are_those_of_dradriver(helm: Helm) -> None:
    files = sorted((CHART / "files").glob("*.yaml"))
    packaged = {each["spec"]["names"]["plural"]: each for each in read_definitions()}
    assert {path.stem: yaml.safe_load(path.read_text()) for path in files} == packaged
    manifests = render(helm, classic__enabled=True)
    for definition in packaged.values():
        installed = find_manifest(manifests, "CustomResourceDefinition", definition["metadata"]["name"])
        assert installed["spec"] == definition["spec"]


def test_an_uninstallation_keeps_the_definitions(helm: Helm) -> None:
    manifests = render(helm, classic__enabled=True)
    definitions = [each for each in manifests if each["kind"] == "CustomResourceDefinition"]
    kept = [each["metadata"]["annotations"]["helm.sh/resource-policy"] for each in definitions]
    assert kept == ["keep", "keep"], "deleting a definition deletes the records of all controllers"
    others = render(helm, classic__enabled=True, classic__definitions=False)
    assert {each["kind"] for each in others} == {
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }


def test_only_with_classic_dra_the_scheduler_negotiates(helm: Helm) -> None:
    def extra(**values: object) -> set[tuple[str, str, tuple[str, ...]]]:
        plain = {key.replace(".", "__"): value for key, value in SCHEDULER.items()}
        with_classic = render(helm, **plain, classic__enabled=True, **values)
        name = "release-dradriver-scheduler"
        before = rules(find_manifest(render(helm, **plain), "ClusterRole", name))
        return rules(find_manifest(with_classic, "ClusterRole", name)) - before

    negotiation = {
        *(
            ("podschedulingcontexts", verb, ())
            for verb in ("get", "list", "watch", "create", "patch", "delete")
        ),
        *(("controllerallocations", verb, ()) for verb in ("list", "watch")),
        ("controllerallocations/status", "patch", ()),
    }
    assert extra() == negotiation
    plugins = {"classic__kubeletPlugins": ["nic.example.com"], "drivers__fabric": CONTROLLER}
    request = (
        "resourceclaims/driver",
        "arbitrary-node:patch",
        ("fabric.example.com", "nic.example.com"),
    )
    assert extra(**plugins) == {*negotiation, request}


def test_the_webhooks_of_drivers_get_the_parameters_for_controllers(helm: Helm) -> None:
    loop = {"drivers__loop__enabled": True, "drivers__loop__webhook": {"enabled": True}}

    def condition(**values: object) -> str:
        (webhook,) = find_manifest(render(helm, **loop, **values), "ValidatingWebhookConfiguration")["webhooks"]
        return str(webhook["matchConditions"][0]["expression"])

    assert condition(classic__enabled=True).endswith("in ['loop.example.com', 'classic.dradriver.dev'])")
    assert condition().endswith("== 'loop.example.com')")
