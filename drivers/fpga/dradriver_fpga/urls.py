"""URLs that have only one reading. Pure.

A URL of a claim is compared with the operator's prefixes. Afterwards the HTTP client, proxies, web servers and
applications read it. They decode different characters in different orders. A URL that two of them could
understand differently is therefore rejected before it is compared.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

__all__ = ["Url", "parse_url"]

_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?",
    re.IGNORECASE,
)
_PATH: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*")
"""RFC 3986, section 3.3, without extensions of clients: spaces, backslashes, letters outside of ASCII."""
_QUERY: Final = re.compile(r"\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
_DOTS: Final = frozenset({".", ".."})


@dataclass(frozen=True, slots=True)
class Url:
    """A URL in parts.

    Attributes:
        origin: scheme, host and port, in lower case; the port is always set.
        path: as written; at least `/`.
        query: as written, with its `?`; "" without one.
    """

    origin: tuple[str, str, int]
    path: str
    query: str

    def is_below(self, prefix: "Url") -> bool:
        """Return whether the URL is the prefix, or in the folder that the prefix names."""
        folder = prefix.path.rstrip("/")
        return self.origin == prefix.origin and (self.path == folder or self.path.startswith(f"{folder}/"))


def parse_url(text: str) -> Url:
    """Return the parts of a URL of a file: `http` or `https`, without any ambiguous part.

    Raises:
        ValueError: why it is rejected, worded to follow the name of the URL.
    """
    if "\\" in text:
        raise ValueError("must have no backslash")
    if not text.isascii() or any(ord(letter) <= ord(" ") or letter == "\x7f" for letter in text):
        raise ValueError(
            "must have no spaces, control characters, or letters outside of ASCII: percent-encode them"
        )
    if "#" in text:
        raise ValueError("must have no fragment (#): no server sees it")
    authority = re.split(r"[/?]", text.partition("://")[2], maxsplit=1)[0]
    if "@" in authority:
        raise ValueError("must have no user or password: claims are readable")
    found = _URL.fullmatch(text)
    if found is None:
        raise ValueError("can't be read: it must begin with http:// or https:// and a host")
    scheme, host = found["scheme"].lower(), found["host"].lower()
    port = int(found["port"] or _PORTS[scheme])
    if port > 0xFFFF:
        raise ValueError(f"can't be read: there is no port {port}")
    path, query = found["path"] or "/", found["query"] or ""
    if not _PATH.fullmatch(path) or (query and not _QUERY.fullmatch(query)):
        raise ValueError("can't be read: a % must begin two hex digits, and other signs be percent-encoded")
    _require_one_reading(path)
    return Url((scheme, host, port), path, query)


def _require_one_reading(path: str) -> None:
    for encoded in ("%2f", "%5c", "%25"):
        if encoded in path.lower():
            raise ValueError(f"must have no {encoded} in its path: some servers decode it, others don't")
    for segment in path.split("/"):
        try:
            decoded = unquote_to_bytes(segment).decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"must be UTF-8 where it is percent-encoded: {segment}") from error
        plain = unicodedata.normalize("NFKC", decoded)
        if any(unicodedata.category(letter) == "Cc" for letter in decoded):
            raise ValueError(f"must have no control characters: {segment}")
        if "/" in plain or "\\" in plain:
            raise ValueError(f"must have no signs that are taken for a slash: {segment}")
        if plain.partition(";")[0].strip() in _DOTS:
            raise ValueError(f"must have no dot segment: {segment}")
