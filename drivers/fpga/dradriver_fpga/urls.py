"""Parses URLs, and rejects ambiguous ones. Pure.

The driver compares a URL of a claim with the operator's prefixes. Afterwards, the HTTP client, proxies, web
servers and applications read the URL. These programs decode different characters in different orders. If two of
them could interpret a URL differently, the URL is therefore rejected before it is compared.
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
"""A path as in RFC 3986, section 3.3.

Extensions of clients (spaces, backslashes, letters outside of ASCII) do not match.
"""
_QUERY: Final = re.compile(r"\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
_DOTS: Final = frozenset({".", ".."})


@dataclass(frozen=True, slots=True)
class Url:
    """A URL in parts.

    Attributes:
        origin: scheme, host and port, in lower case; the port is always set.
        path: path as written; at least `/`.
        query: query as written, with its `?`; "" without a query.
    """

    origin: tuple[str, str, int]
    path: str
    query: str

    def is_below(self, prefix: "Url") -> bool:
        """Return whether the URL is the prefix, or is below the folder that the prefix names."""
        folder = prefix.path.rstrip("/")
        return self.origin == prefix.origin and (self.path == folder or self.path.startswith(f"{folder}/"))


def parse_url(text: str) -> Url:
    """Return the parts of a URL of a file: `http` or `https`, without any ambiguous part.

    Raises:
        ValueError: the URL is rejected. The message gives the reason and is worded to follow the name of the
            URL.
    """
    if "\\" in text:
        raise ValueError("must have no backslash")
    if not text.isascii() or any(ord(letter) <= ord(" ") or letter == "\x7f" for letter in text):
        raise ValueError(
            "must have no spaces, control characters, or letters outside of ASCII: percent-encode them"
        )
    if "#" in text:
        raise ValueError("must have no fragment (#): servers do not receive it")
    authority = re.split(r"[/?]", text.partition("://")[2], maxsplit=1)[0]
    if "@" in authority:
        raise ValueError("must have no user or password: claims are readable")
    match = _URL.fullmatch(text)
    if match is None:
        raise ValueError("must begin with http:// or https:// and a host")
    scheme, host = match["scheme"].lower(), match["host"].lower()
    port = int(match["port"] or _PORTS[scheme])
    if port > 0xFFFF:
        raise ValueError(f"must have a port up to 65535, not {port}")
    path, query = match["path"] or "/", match["query"] or ""
    if not _PATH.fullmatch(path) or (query and not _QUERY.fullmatch(query)):
        raise ValueError("must have two hex digits after each %, and other special characters percent-encoded")
    _require_one_reading(path)
    return Url((scheme, host, port), path, query)


def _require_one_reading(path: str) -> None:
    for encoded in ("%2f", "%5c", "%25"):
        if encoded in path.lower():
            raise ValueError(f"must have no {encoded} in its path: some servers decode it and others do not")
    for segment in path.split("/"):
        try:
            decoded = unquote_to_bytes(segment).decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"must be UTF-8 where it is percent-encoded: {segment}") from error
        plain = unicodedata.normalize("NFKC", decoded)
        if any(unicodedata.category(letter) == "Cc" for letter in decoded):
            raise ValueError(f"must have no control characters: {segment}")
        if "/" in plain or "\\" in plain:
            raise ValueError(f"must have no characters that are read as a slash: {segment}")
        if plain.partition(";")[0].strip() in _DOTS:
            raise ValueError(f"must have no dot segment: {segment}")
