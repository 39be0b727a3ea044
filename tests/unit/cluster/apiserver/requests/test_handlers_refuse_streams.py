"""`kubectl exec`, `attach` and `port-forward` get an error that names the missing feature, not a 404."""

import pytest

from tests.unit.cluster.apiserver.conftest import Connect, StartServer

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pod"},
    "spec": {"containers": [{"name": "main", "image": "busybox"}]},
}
PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("subresource", "word"), [("exec", "exec"), ("attach", "attach"), ("portforward", "port-forward")]
)
async def test_streams_are_rejected(
    start_server: StartServer, connect: Connect, method: str, subresource: str, word: str
) -> None:
    api = connect(await start_server())
    await api.make(PODS, POD)
    answer = await api.call(method, f"{PODS}/pod/{subresource}?container=main")
    assert (answer.status, answer.json["reason"]) == (405, "MethodNotAllowed")
    assert answer.json["message"] == f"the embedded cluster does not support {word}; kubectl logs works"


@pytest.mark.parametrize("option", ["timestamps=true", "sinceSeconds=5", "previous=true"])
async def test_unsupported_log_options_are_rejected(
    start_server: StartServer, connect: Connect, option: str
) -> None:
    api = connect(await start_server())
    await api.make(PODS, POD)
    answer = await api.call("GET", f"{PODS}/pod/log?{option}")
    assert answer.status == 400
    assert f"log option {option.partition('=')[0]}: not supported" in answer.json["message"]
