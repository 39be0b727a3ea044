"""The messages are read and written as the Go structs of `k8s.io/kube-scheduler/extender/v1`."""

import json
from typing import Any

import pytest

from dradriver.extender.protocol import (
    BindArgs,
    BindResult,
    FilterArgs,
    FilterResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    PreemptionArgs,
    PreemptionResult,
)
from dradriver.model.encoding.codec import decode, encode

POD = (
    '{"metadata":{"name":"a","namespace":"default","uid":"u-1","resourceVersion":"7","creationTimestamp":'
    '"2026-01-01T00:00:00Z"},"spec":{"containers":[{"name":"main","image":"busybox","resources":{},'
    '"terminationMessagePath":"/dev/termination-log"}],"schedulerName":"dradriver","resourceClaims":'
    '[{"name":"gpu","resourceClaimName":"c"}]},"status":{"phase":"Pending"}}'
)


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ('"Nodes":null,"NodeNames":["node-1","node-2"]', ["node-1", "node-2"]),
        ('"Nodes":null,"NodeNames":[]', []),
        ('"Nodes":{"metadata":{},"items":[]},"NodeNames":null', None),
    ],
)
def test_the_request_of_filter_is_read(nodes: str, names: list[str] | None) -> None:
    args = decode(FilterArgs, f'{{"Pod":{POD},{nodes}}}')
    assert args.node_names == names
    assert (args.pod.ref, args.pod.metadata.uid) == ("default/a", "u-1")
    assert args.pod.spec.scheduler_name == "dradriver"
    assert [claim.resource_claim_name for claim in args.pod.spec.resource_claims] == ["c"]


def test_the_request_of_bind_is_read() -> None:
    text = '{"PodName":"a","PodNamespace":"default","PodUID":"u-1","Node":"node-1"}'
    args = decode(BindArgs, text)
    assert args == BindArgs(pod_name="a", pod_namespace="default", pod_uid="u-1", node="node-1")


@pytest.mark.parametrize(
    ("victims", "expected"),
    [
        (
            '{"node-1":{"Pods":[{"UID":"u-2"}],"NumPDBViolations":1}}',
            {"node-1": MetaVictims(pods=[MetaPod(uid="u-2")], num_pdb_violations=1)},
        ),
        ("{}", {}),
        ("null", None),
    ],
)
def test_the_request_of_preempt_is_read(victims: str, expected: Any) -> None:
    text = f'{{"Pod":{POD},"NodeNameToVictims":null,"NodeNameToMetaVictims":{victims}}}'
    assert decode(PreemptionArgs, text).node_name_to_meta_victims == expected


def test_a_node_without_victims_may_have_null_for_them() -> None:
    victims_of_node = '{"Pods":null,"NumPDBViolations":0}'
    text = f'{{"Pod":{POD},"NodeNameToMetaVictims":{{"node-1":{victims_of_node}}}}}'
    victims = decode(PreemptionArgs, text).node_name_to_meta_victims
    assert victims is not None
    assert not victims["node-1"].pods


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (FilterResult(node_names=[]), '{"NodeNames":[]}'),
        (
            FilterResult(node_names=["node-1"], failed_nodes={"node-2": "busy"}),
            '{"NodeNames":["node-1"],"FailedNodes":{"node-2":"busy"}}',
        ),
        (
            FilterResult(failed_and_unresolvable_nodes={"node-2": "no device"}, error="late"),
            '{"FailedAndUnresolvableNodes":{"node-2":"no device"},"Error":"late"}',
        ),
        (BindResult(error="late"), '{"Error":"late"}'),
        (BindResult(), "{}"),
        ([HostPriority(host="node-1", score=7)], '[{"Host":"node-1","Score":7}]'),
        (
            PreemptionResult(
                node_name_to_meta_victims={"node-1": MetaVictims(pods=[MetaPod(uid="u")], num_pdb_violations=1)}
            ),
            '{"NodeNameToMetaVictims":{"node-1":{"Pods":[{"UID":"u"}],"NumPDBViolations":1}}}',
        ),
    ],
)
def test_answers_have_the_names_of_the_go_structs(answer: object, text: str) -> None:
    assert json.loads(encode(answer)) == json.loads(text)
