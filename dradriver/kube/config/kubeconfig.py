"""Reads, merges and checks kubeconfig files. Errors name the file and the field."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from dradriver.errors import InvalidObjectError, NotFoundError, Problem
from dradriver.model.encoding.codec import from_builtins

__all__ = ["Cluster", "KubeconfigContext", "User", "load_kubeconfig"]


class Cluster(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """How to reach an API server."""

    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class User(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """Credentials of a user. `kubernetes.aio` handles `exec` and `auth-provider`."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None


class _ContextRefs(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: Cluster


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: User | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: _ContextRefs


class _File(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


@dataclass(frozen=True, slots=True)
class KubeconfigContext:
    """One context with its cluster and user.

    Attributes:
        source: the file that defines the context, for messages.
        name: the context's name.
        cluster: the settings of the API server, with absolute paths.
        user: the credentials, with absolute paths.
        namespace: the default namespace of the context.
    """

    source: str
    name: str
    cluster: Cluster
    user: User
    namespace: str


_PATHS: Final = ("certificate_authority", "client_certificate", "client_key", "token_file")


def load_kubeconfig(paths: str, context: str | None = None) -> KubeconfigContext:
    """Read one file, or several files separated by `:` as in `$KUBECONFIG`, and return a context.

    If several files define one name, the first file counts. This function blocks, so it must be called in a
    thread.

    Raises:
        NotFoundError: a file does not exist.
        InvalidObjectError: a file is not a kubeconfig, or the context is incomplete.
    """
    candidates = [Path(path).expanduser() for path in paths.split(os.pathsep) if path]
    existing = [path for path in candidates if path.exists()]
    if not existing:
        raise NotFoundError(f"kubeconfig {paths}: no such file")
    return _resolve(paths, [_read(path) for path in existing], context)


def _read(path: Path) -> _File:
    import yaml  # noqa: PLC0415 - a pod in a cluster never needs it

    subject = f"kubeconfig {path}"
    try:
        data = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidObjectError(subject, [Problem("", f"not YAML: {' '.join(str(error).split())}")]) from None
    except OSError as error:
        raise InvalidObjectError(subject, [Problem("", f"cannot be read: {error.strerror}")]) from None
    if not isinstance(data, dict):
        raise InvalidObjectError(subject, [Problem("", "must be a mapping with clusters, users and contexts")])
    return _make_paths_absolute(from_builtins(_File, data, subject), path.absolute().parent)


def _make_paths_absolute(file: _File, base: Path) -> _File:
    clusters = [replace(c, cluster=_make_absolute(c.cluster, base)) for c in file.clusters or ()]
    users = [replace(u, user=_make_absolute(u.user or User(), base)) for u in file.users or ()]
    return replace(file, clusters=clusters, users=users)


_S = TypeVar("_S", Cluster, User)


def _make_absolute(entry: _S, base: Path) -> _S:
    given = {field: getattr(entry, field, "") for field in _PATHS}
    return replace(
        entry, **{field: str(base / Path(path).expanduser()) for field, path in given.items() if path}
    )


def _resolve(source: str, files: Sequence[_File], wanted: str | None) -> KubeconfigContext:
    name = wanted or next((file.current_context for file in files if file.current_context), "")
    if not name:
        raise InvalidObjectError(
            f"kubeconfig {source}", [Problem("current-context", "is empty and no context was given")]
        )
    contexts = {c.name: c for file in reversed(files) for c in file.contexts or ()}
    clusters = {c.name: c for file in reversed(files) for c in file.clusters or ()}
    users = {u.name: u for file in reversed(files) for u in file.users or ()}
    refs = _find_entry(source, "contexts", contexts, name).context
    cluster = _find_entry(source, "clusters", clusters, refs.cluster).cluster
    user = _find_entry(source, "users", users, refs.user).user if refs.user else None
    if not cluster.server.startswith(("https://", "http://")):
        raise InvalidObjectError(
            f"kubeconfig {source}",
            [Problem(f"clusters[{refs.cluster}].cluster.server", f"{cluster.server!r} is not an https URL")],
        )
    return KubeconfigContext(source, name, cluster, user or User(), refs.namespace or "default")


_N = TypeVar("_N")


def _find_entry(source: str, field: str, known: dict[str, _N], name: str) -> _N:
    if name not in known:
        known_names = ", ".join(sorted(known)) or "none"
        raise InvalidObjectError(
            f"kubeconfig {source}", [Problem(field, f"has no entry named {name!r} (it has: {known_names})")]
        )
    return known[name]
