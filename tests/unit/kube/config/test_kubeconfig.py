"""The search for the configuration, and the errors of an invalid one."""

from pathlib import Path

import pytest

from dradriver.errors import DraError
from dradriver.kube.config.connection import find_connection
from dradriver.kube.config.credentials import FileToken

GOOD = """
current-context: a
contexts: [{name: a, context: {cluster: k, user: u, namespace: work}}, {name: b, context: {cluster: k}}]
clusters: [{name: k, cluster: {server: "http://127.0.0.1:8080/"}}]
users: [{name: u, user: {tokenFile: token}}]
"""
TLS = 'clusters: [{name: k, cluster: {server: "https://x", %s}}]\ncontexts: [{name: a, context: {cluster: k}}]'


async def test_a_context_is_resolved_with_paths_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(GOOD)
    (tmp_path / "token").write_text("secret\n")
    connection = await find_connection(str(tmp_path / "config"))
    assert connection.server == "http://127.0.0.1:8080"
    assert connection.namespace == "work"
    assert await connection.credentials.header() == "Bearer secret"


async def test_the_environment_names_several_files(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("current-context: b")
    (tmp_path / "two").write_text(GOOD)
    environ = {"KUBECONFIG": f"{tmp_path}/one:{tmp_path}/missing:{tmp_path}/two"}
    connection = await find_connection(environ=environ)
    assert await connection.credentials.header() == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not YAML"),
        ("[]", "must be a mapping with clusters, users and contexts"),
        ("clusters: 5", "clusters: Expected `array | null`, got `int`"),
        ("clusters: [{name: k, cluster: {}}]", "clusters[0].cluster: Object missing required field `server`"),
        ("{}", "current-context: is empty"),
        ("current-context: a", "contexts: has no entry named 'a' (it has: none)"),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: k}}]\n"
            "clusters: [{name: m, cluster: {server: http://m}}]",
            "clusters: has no entry named 'k' (it has: m)",
        ),
        (
            f"current-context: a\n{TLS % 'certificate-authority-data: 5x'}",
            "certificate-authority: is not usable: not base64",
        ),
        (
            f"current-context: a\n{TLS % 'certificate-authority: /none'}",
            "certificate-authority: is not usable: ",
        ),
        (
            GOOD.replace("http:", "ftp:"),
            "clusters[k].cluster.server: 'ftp://127.0.0.1:8080/' is not an https URL",
        ),
    ],
)
async def test_an_invalid_file_names_file_and_field(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(DraError) as caught:
        await find_connection(str(path))
    assert str(caught.value).startswith(f"kubeconfig {path}: ")
    assert message in str(caught.value)


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DraError, match=r"kubeconfig .*/none: no such file"):
        await find_connection(str(tmp_path / "none"))


async def test_an_unknown_context_lists_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(GOOD)
    with pytest.raises(DraError, match=r"contexts: has no entry named 'c' \(it has: a, b\)"):
        await find_connection(str(tmp_path / "config"), "c")


async def test_an_unreadable_token_file_keeps_the_last_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    token = FileToken(path)
    assert await token.header() == "Bearer one"
    path.unlink()
    token.expire()
    assert await token.header() == "Bearer one"


async def test_an_exec_plugin_returns_the_token(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        '#!/bin/sh\necho \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"from-plugin"}}\'\n'
    )
    plugin.chmod(0o755)
    exec_ = f"{{apiVersion: client.authentication.k8s.io/v1, command: {plugin}}}"
    (tmp_path / "config").write_text(GOOD.replace("tokenFile: token", f"exec: {exec_}"))
    connection = await find_connection(str(tmp_path / "config"))
    assert await connection.credentials.header() == "Bearer from-plugin"


async def test_in_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    import shutil

    import certifi

    shutil.copy(certifi.where(), tmp_path / "ca.crt")
    (tmp_path / "token").write_text("pod")
    (tmp_path / "namespace").write_text("kube-system")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    connection = await find_connection(environ=environ, service_account=tmp_path)
    assert connection.server == "https://[fd00::1]:6443"
    assert connection.namespace == "kube-system"
    assert await connection.credentials.header() == "Bearer pod"


async def test_an_invalid_service_account_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("pod")
    (tmp_path / "ca.crt").write_text("nonsense")
    with pytest.raises(DraError, match=r"service account .*/ca.crt: not a CA certificate"):
        await find_connection(environ={"KUBERNETES_SERVICE_HOST": "x"}, service_account=tmp_path)
