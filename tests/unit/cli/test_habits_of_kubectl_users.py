"""What a kubectl user types by habit: each line works, or its error says what to type instead."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import CLAIMS, PODS, SLICES, Client
from dradriver.testing.builders import claim, device, pod, slice_

Command = Callable[..., Result]
Type = Callable[[str], Awaitable[Result]]

WORKS = {
    "get po": "pod-1",
    "get pod": "pod-2",
    "get pod pod-1": r"^default +pod-1 ",
    "get pods pod-1 pod-2": r"pod-2",
    "get pod/pod-1 pod/pod-2": r"pod-2",
    "get pods,claims": r"claim-1(.|\n)*|pod-1",
    "get pod/pod-1 resourceclaims/claim-1": r"^default +claim-1 ",
    "get resourceclaims": "claim-1",
    "get resourceclaims.resource.k8s.io": "claim-1",
    "get resourceslices": "driver.example.com",
    "get pods -l app=a": r"^default +pod-1 ",
    "get pods --selector=app=a": "pod-1",
    "get pods --field-selector metadata.name=pod-1": "pod-1",
    "get pods -o wide": "pod-1",
    "get pods -owide": "pod-1",
    "get pods -o name": r"^pod/pod-1$",
    "get claims -o=name": r"^resourceclaim.resource.k8s.io/claim-1$",
    "get pod pod-1 -o json": '"kind": "Pod"',
    "get pod pod-1 -o=yaml": r"^kind: Pod$",
    "get pods -o jsonpath={.items[*].metadata.name}": "^pod-1 pod-2$",
    "get pods -o=jsonpath={.items[?(@.metadata.name=='pod-2')].metadata.namespace}": "^default$",
    "get pods -o custom-columns=NAME:.metadata.name,APP:.metadata.labels.app": r"^pod-1 +a$",
    "get pods --no-headers": r"\Adefault ",
    "get pods --sort-by=.metadata.creationTimestamp": "pod-1",
    "get pods --show-labels": "app=a",
    "get pods -A": "pod-1",
    "-n default get pods": "pod-1",
    "get -n default pods": "pod-1",
    "--namespace=default get pods": "pod-1",
    "get -o wide pods": "pod-1",
    "get -oname pods": r"^pod/pod-1$",
    "get -l app=a pods": r"^default +pod-1 ",
    "get --output=name --no-headers pod pod-1": r"^pod/pod-1$",
    "-o name get pods": r"^pod/pod-1$",
    "get pods --all-namespaces=true": "pod-1",
    "get pod nothing --ignore-not-found": r"\A\Z",
    "-n x get devices": "gpu-0",
    "get devices -n x": "gpu-0",
    "get devices -A": "gpu-0",
    "get slices -n x": "driver.example.com",
    "get pools --namespace=x": "driver.example.com",
    "get partitions -n x": r"\A\Z",
    "get pod nothing --ignore-not-found -o json": r"\A\Z",
    "get pods,claims -o name": r"\Apod/pod-1\npod/pod-2\nresourceclaim.resource.k8s.io/claim-1\n\Z",
    "get pods,claims -o jsonpath={.items[*].metadata.name}": r"\Apod-1 pod-2 claim-1\Z",
    "get pod/pod-1 claim/claim-1 -o jsonpath={.items[*].kind}": r"\APod ResourceClaim\Z",
    "get claims,pods -o custom-columns=KIND:.kind,NAME:.metadata.name": r"\AKIND +NAME\nRes.*\nPod.*\nPod.*\n",
    "get claims,pods --sort-by=.metadata.name -o jsonpath={.items[*].metadata.name}": "^claim-1 pod-1 pod-2$",
    "get pods,devices -o jsonpath={.items[*].kind}": "^Pod Pod Device$",
    "get devices -o name": "^device/driver.example.com/node-1/gpu-0$",
    "--version": "version",
}

SAYS = {
    "get pod nothing": 'pods "nothing" not found',
    "describe pod pod-1": "explain pod pod-1",
    "describe resourceclaim/claim-1": "explain claim claim-1",
    "logs pod-1": "kubectl logs pod-1",
    "delete pod pod-1": "kubectl delete pod pod-1",
    "apply -f x.yaml": "kubectl apply -f x.yaml",
    "get nodes": "kubectl get nodes",
    "get deviceclasses": "kubectl get deviceclasses",
    "get deploy": "kubectl get deployments",
    "get nodes/node-1": "kubectl get nodes/node-1",
    "get sts": "kubectl get statefulsets",
    "cluster-info": "kubectl cluster-info",
    "api-versions": "kubectl api-versions",
    "kustomize .": "kubectl kustomize .",
    "api-resources": "get --help",
    "version": "--version",
    "help get": "get --help",
    "gte pods": "get",
    "get podz": "pods",
    "get pods --slector app=a": "--selector",
    "get pods -o go-template={{.items}}": "jsonpath=TEMPLATE",
    "get pods -o jsonpath": "jsonpath=TEMPLATE",
    "get pods -o yml": "yaml",
    "get devices -l app=a": "--driver, --pool",
    "get pools -l app=a": "get slices -l",
    "get partitions -l app=a": "--node",
    "get pods,claims -w": "type a command for each kind",
    "get pods,partitions -o json": "a command of its own",
    "explain pods/nothing": "nothing",
    "explain po nothing": "nothing",
    "explain pod-1": "explain pod pod-1, or ",
    "explain node node-1": "get partitions --node node-1",
    "explain nodes/node-1": "get partitions --node node-1",
    "explain resourceclaim.spec": "kubectl explain resourceclaim.spec",
    "explain deviceclasses": "kubectl explain deviceclasses",
    "explain pdo pod-1": "pod",
}


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    server = ApiServer(tmp_path / "server")
    await server.start()
    path = tmp_path / "kubeconfig"
    server.write_kubeconfig(path)
    async with await Client.connect(str(path)) as client:
        await client.create(SLICES, slice_(device("gpu-0"), count=1), into=dict)
        await client.create(CLAIMS, claim(name="claim-1"), "default", into=dict)
        for name, app in (("pod-1", "a"), ("pod-2", "b")):
            body = pod("claim-1", name=name)
            body.metadata.labels["app"] = app
            await client.create(PODS, body, "default", into=dict)
    yield path
    await server.stop()


@pytest.fixture
def typed(dradriver: Command, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    monkeypatch.setenv("DRADRIVER_KUBECONFIG", str(kubeconfig))

    async def run(line: str) -> Result:
        return await asyncio.to_thread(dradriver, *line.split(" "))

    return run


async def test_these_lines_work(typed: Type) -> None:
    """One test, because each needs the same cluster."""
    for line, expected in WORKS.items():
        result = await typed(line)
        assert result.exit_code == 0, f"{line}: {result.output}"
        assert re.search(expected, result.stdout, re.MULTILINE), f"{line}: {result.output}"


async def test_these_lines_say_what_to_type_instead(typed: Type) -> None:
    for line, expected in SAYS.items():
        result = await typed(line)
        assert result.exit_code in {1, 2}, line
        assert expected in result.stderr, f"{line}: {result.stderr}"


async def test_the_selected_rows_are_the_only_ones(typed: Type) -> None:
    for line in ("get pods -l app=a", "get pod pod-1", "get pods --field-selector metadata.name=pod-1"):
        assert "pod-2" not in (await typed(line)).stdout


async def test_one_name_gives_the_object_and_several_a_list(typed: Type) -> None:
    assert json.loads((await typed("get pod pod-1 -o json")).stdout)["metadata"]["name"] == "pod-1"
    several = json.loads((await typed("get pods pod-1 pod-2 -o json")).stdout)
    assert (several["kind"], len(several["items"])) == ("List", 2)


async def test_the_present_objects_are_printed_before_the_missing_names(typed: Type) -> None:
    result = await typed("get pods pod-1 nothing")
    assert (result.exit_code, "pod-1" in result.stdout, "nothing" in result.stderr) == (1, True, True)


async def test_rows_are_sorted_by_a_field(typed: Type) -> None:
    shown = (await typed("get pods --sort-by={.metadata.labels.app} -o name")).stdout
    assert shown.split() == ["pod/pod-1", "pod/pod-2"]
    refused = await typed("get pods --sort-by=.nothing")
    assert "no object has this field" in refused.stderr


async def test_several_kinds_are_one_list(typed: Type) -> None:
    whole = json.loads((await typed("get pods,claims -o json")).stdout)
    assert (whole["apiVersion"], whole["kind"]) == ("v1", "List")
    assert [each["kind"] for each in whole["items"]] == ["Pod", "Pod", "ResourceClaim"]
    (document,) = yaml.safe_load_all((await typed("get pod/pod-1 claim/claim-1 -o yaml")).stdout)
    assert [each["metadata"]["name"] for each in document["items"]] == ["pod-1", "claim-1"]


async def test_the_other_kinds_are_printed_although_a_name_does_not_exist(typed: Type) -> None:
    for form in ("table", "name", "json"):
        result = await typed(f"get pod/nothing claim/claim-1 -o {form}")
        assert (result.exit_code, "claim-1" in result.stdout) == (1, True), form
        assert 'pods "nothing" not found' in result.stderr


async def test_a_value_of_an_option_is_no_name_of_an_object(typed: Type, tmp_path: Path) -> None:
    """The path `pods/a.yaml` looks like a kind and a name."""
    result = await typed("get claims -f claims/a.yaml -f pods/b.yaml")
    assert "claims/a.yaml" in result.stderr
    assert "claim-1" not in result.stdout


async def test_a_missing_name_gives_no_document(typed: Type) -> None:
    result = await typed("get pod nothing -o json")
    assert (result.exit_code, result.stdout) == (1, "")
