"""The chart's definitions, policies, accounts and roles on a bed, for programs that run outside of pods."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.e2e.bed.bed import Bed
from tests.e2e.chart.helm import Helm, set_values

__all__ = ["chart_accounts", "write_account_kubeconfig"]

_KINDS: Final = (
    "CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
)  # fmt: skip
"""All objects of the chart that decide who may write what. The others run pods."""


@contextmanager
def chart_accounts(bed: Bed, namespace: str, name: str, values: Mapping[str, object]) -> Iterator[None]:
    """Create the accounts of a release and all that restricts them; delete them at the end. Blocking.

    Args:
        bed: the bed of the cluster.
        namespace: the namespace of the release, which must exist.
        name: the first part of the names of all accounts.
        values: values of the chart, by their dotted names.
    """
    common = {"image.repository": "registry.example.com/d", "fullnameOverride": name}
    rendered = Helm(namespace=namespace).template(*set_values({**common, **values}))
    manifests = [each for each in rendered if each["kind"] in _KINDS]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    bed.kubectl("apply", "-f", "-", stdin=listed)
    try:
        yield
    finally:
        bed.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=listed)


def write_account_kubeconfig(bed: Bed, namespace: str, account: str) -> Path:
    """Write a kubeconfig with a token of a service account, and return its path. Blocking."""
    token = bed.kubectl("create", "token", account, f"--namespace={namespace}", "--duration=4h").strip()
    document = json.loads(bed.credentials.write_kubeconfig(bed.url, "admin").read_text())
    document["users"][0]["user"] = {"token": token}
    path = bed.folder / f"{namespace}-{account}.kubeconfig"
    path.write_text(json.dumps(document))
    return path
