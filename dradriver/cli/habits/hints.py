"""Says what to type instead of a verb or a kind that dradriver does not have."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

__all__ = ["explained_hint", "kind_hint", "suggest", "verb_hint"]

_KUBECTL_VERBS: Final = frozenset(
    (
        "annotate",
        "api-versions",
        "apply",
        "attach",
        "auth",
        "autoscale",
        "certificate",
        "cluster-info",
        "config",
        "cordon",
        "cp",
        "create",
        "debug",
        "delete",
        "diff",
        "drain",
        "edit",
        "events",
        "exec",
        "expose",
        "kustomize",
        "label",
        "logs",
        "patch",
        "plugin",
        "port-forward",
        "proxy",
        "replace",
        "rollout",
        "scale",
        "set",
        "taint",
        "uncordon",
        "wait",
    )
)
_INSTEAD: Final[Mapping[str, str]] = {
    "api-resources": "{program} get --help",
    "help": "{program} --help",
    "options": "{program} --help",
    "version": "{program} --version",
}
_DESCRIBED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("pod", "pods", "po"), "{program} explain pod {name}"),
    **dict.fromkeys(
        ("claim", "claims", "resourceclaim", "resourceclaims"),
        "{program} explain claim {name}",
    ),
    **dict.fromkeys(("device", "devices"), "{program} get devices {name} -o yaml"),
    **dict.fromkeys(("pool", "pools"), "{program} get pools {name} -o yaml"),
    **dict.fromkeys(
        ("slice", "slices", "resourceslice", "resourceslices"), "{program} get slices {name} -o yaml"
    ),
    **dict.fromkeys(("node", "nodes", "no"), "{program} get partitions --node {name}"),
}
_KUBECTL_KINDS: Final[Mapping[str, str]] = {
    alias: plural
    for plural, aliases in {
        "nodes": "node no",
        "namespaces": "namespace ns",
        "deviceclasses": "deviceclass class classes",
        "resourceclaimtemplates": "resourceclaimtemplate template templates",
        "devicetaintrules": "devicetaintrule",
        "events": "event ev",
        "deployments": "deployment deploy",
        "daemonsets": "daemonset ds",
        "statefulsets": "statefulset sts",
        "replicasets": "replicaset rs",
        "replicationcontrollers": "replicationcontroller rc",
        "jobs": "job",
        "cronjobs": "cronjob cj",
        "leases": "lease",
        "serviceaccounts": "serviceaccount sa",
        "customresourcedefinitions": "customresourcedefinition crd crds",
        "services": "service svc",
        "configmaps": "configmap cm",
        "secrets": "secret",
        "all": "",
    }.items()
    for alias in (plural, *aliases.split())
}


def verb_hint(program: str, words: Sequence[str]) -> str:
    """Return what to type instead of a command line whose verb dradriver does not have; empty if unknown.

    Args:
        program: `dradriver` or `kubectl dra`.
        words: the verb and the words after it.
    """
    verb, *rest = words
    if verb == "describe":
        return _describe(program, [word for word in rest if not word.startswith("-")])
    if verb == "help" and rest:
        return f"type: {program} {' '.join(rest)} --help"
    if verb in _INSTEAD:
        return f"type: {_INSTEAD[verb].format(program=program)}"
    if verb in _KUBECTL_VERBS:
        return f"type: {' '.join(['kubectl', *words])}"
    return ""


def _describe(program: str, words: Sequence[str]) -> str:
    kind, _, name = (words[0] if words else "").partition("/")
    name = name or next(iter(words[1:]), "NAME")
    pattern = _DESCRIBED.get(kind.partition(".")[0].lower())
    if pattern is None:
        return f"type: {program} explain pod NAME, or {program} explain claim NAME"
    return f"type: {pattern.format(program=program, name=name)}"


def kind_hint(word: str) -> str:
    """Return the kubectl command for a kind of Kubernetes that `get` does not have; empty if unknown.

    Args:
        word: the plural, singular or short name, optionally with the API group, or `KIND/NAME`.
    """
    kind, slash, name = word.partition("/")
    plural = _KUBECTL_KINDS.get(kind.partition(".")[0].lower())
    return f"type: kubectl get {plural}{slash}{name}" if plural else ""


def explained_hint(program: str, words: Sequence[str]) -> str:
    """Return what to type instead of `explain` with a word that is not a kind that it explains.

    Args:
        program: `dradriver` or `kubectl dra`.
        words: the words after `explain`.
    """
    kind, _, name = words[0].partition("/")
    if kind.lower() in {"node", "nodes", "no"}:
        return f"type: {program} get partitions --node {name or next(iter(words[1:]), 'NAME')}"
    if "." in kind or kind.lower() in _KUBECTL_KINDS:
        return f"type: kubectl explain {kind}"
    return f"type: {program} explain pod {kind}, or {program} explain claim {kind}" if len(words) == 1 else ""


def suggest(word: str, known: Iterable[str]) -> str:
    """Return `did you mean ...?` with the known words that are most similar to a word; empty if none is.

    Args:
        word: the mistyped word.
        known: the words that exist.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only after a mistake

    near = get_close_matches(word.lower(), sorted(known), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else ""
