"""URLs as Go parses them: absolute URLs and absolute paths. Source: net/url, k8s.io/apiserver library.URLs."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, unquote_plus, unquote_to_bytes

from dradriver.cel.compile.functions import Overload, function, method
from dradriver.cel.evaluate.cost import first_cost
from dradriver.cel.evaluate.errors import ErrorValue, excerpt, succeeds
from dradriver.cel.evaluate.steps import LONG_TEXT, Work
from dradriver.cel.evaluate.values import Opaque, size_of

__all__ = ["OVERLOADS", "check_url"]

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_HOST: Final = re.compile(r"""(?:[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>"]|%[0-9a-fA-F]{2}|[^\x00-\x7f])*""")
_PORT: Final = re.compile(r"(?::[0-9]*)?")
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_PATH_PLAIN: Final = "!$&'()*+,;=:@[]~-._/"


@dataclass(frozen=True, slots=True)
class _Parts:
    scheme: str = ""
    opaque: str = ""
    user: str = ""
    host: str = ""
    path: str = ""
    query: str = ""
    fragment: str = ""


def _length(parts: _Parts) -> int:
    return sum(len(getattr(parts, name)) for name in _Parts.__slots__)


class _Url(Opaque):
    __slots__ = ("parts",)

    cel_type = "kubernetes.URL"

    def __init__(self, parts: _Parts) -> None:
        super().__init__(parts, weight=_length(parts) // LONG_TEXT)
        self.parts = parts


def check_url(text: str) -> None:
    """Check that a text is an absolute URL or an absolute path.

    Raises:
        ErrorValue: the text is neither of them.
    """
    _parse(text, fragment=False)


def _parse(text: str, *, fragment: bool) -> _Parts:
    problem = ErrorValue(f"{excerpt(text)} is not an absolute URL")
    if not text or any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise problem
    rest, _, tail = text.partition("#") if fragment else (text, "", "")
    match = _SCHEME.match(rest)
    if match is None and rest.partition("/")[0].find(":") == 0:
        raise problem
    scheme = match[1].lower() if match else ""
    rest, _, query = rest[match.end() if match else 0 :].partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise problem
        return _Parts(scheme=scheme, opaque=rest, query=query, fragment=tail)
    user = host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, after = rest[2:].partition("/")
        user, host = _authority(authority, problem)
        rest = slash + after
    if _BAD_ESCAPE.search(rest):
        raise problem
    return _Parts(scheme, "", user, host, rest, query, tail)


def _authority(authority: str, problem: ErrorValue) -> tuple[str, str]:
    user, at, host = authority.rpartition("@")
    if at and (not _USER.fullmatch(user) or _BAD_ESCAPE.search(user)):
        raise problem
    if host.startswith("["):
        address, bracket, port = host.rpartition("]")
        if not bracket or not _PORT.fullmatch(port) or not _HOST.fullmatch(address[1:].replace("%25", "")):
            raise problem
    else:
        colon = host.rfind(":")
        if not _HOST.fullmatch(host) or (colon >= 0 and not _PORT.fullmatch(host[colon:])):
            raise problem
        if any(
            code.lower() not in _HOST_ESCAPES and int(code, 16) < 0x80 for code in re.findall(r"%(..)", host)
        ):
            raise problem
    return user, unquote(host)


_HOST_ESCAPES: Final = frozenset({"25"})


def _url(text: str) -> _Url:
    check_url(text)
    return _Url(_parse(text, fragment=True))


def _hostname(url: _Url) -> str:
    host = url.parts.host
    if host.startswith("["):
        return host[1 : host.rfind("]")]
    return host.partition(":")[0] if ":" in host else host


def _port(url: _Url) -> str:
    host = url.parts.host
    tail = host[host.rfind("]") + 1 :] if host.startswith("[") else host
    return tail.rpartition(":")[2] if ":" in tail else ""


def _escaped_path(url: _Url) -> str:
    path = url.parts.path
    plain = re.fullmatch(r"(?:[A-Za-z0-9!$&'()*+,;=:@\[\]~\-._/]|%[0-9a-fA-F]{2})*", path)
    return path if plain else quote(unquote_to_bytes(path), safe=_PATH_PLAIN)


def _query(url: _Url) -> dict[object, object]:
    query: dict[object, object] = {}
    values: dict[str, list[str]] = {}
    for piece in url.parts.query.split("&"):
        if not piece or ";" in piece:
            continue
        key, _, value = piece.partition("=")
        if _BAD_ESCAPE.search(key) or _BAD_ESCAPE.search(value):
            continue
        values.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    query.update((name, tuple(texts)) for name, texts in values.items())
    return query


def _parse_work(args: list[object]) -> int:
    return 60 + 2 * size_of(args[0])


def _part_work(characters: int) -> Work:
    """Return a work function for reading a URL's parts: 40 steps, and 3 for each `characters` characters."""

    def work(args: list[object]) -> int:
        url = args[0]
        return 40 + (_length(url.parts) * 3 // characters if isinstance(url, _Url) else 0)

    return work


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("url(string): url", _url, first_cost, work=_parse_work),
    function("isURL(string): bool", lambda text: succeeds(check_url, text), work=_parse_work),
    method("getScheme(url): string", lambda url: url.parts.scheme),
    method("getHost(url): string", lambda url: url.parts.host),
    method("getHostname(url): string", _hostname, work=_part_work(64)),
    method("getPort(url): string", _port, work=_part_work(64)),
    method("getEscapedPath(url): string", _escaped_path, work=_part_work(1)),
    method("getQuery(url): map(string, list(string))", _query, work=_part_work(1)),
)
"""All functions of this module; `compile.environment` collects them."""
