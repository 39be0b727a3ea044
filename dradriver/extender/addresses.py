"""The rule for addresses of the extender: plain HTTP only on this machine.

A client that reaches the verbs can bind any pod to any node.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from dradriver.errors import UsageError
from dradriver.http_server.hosts import is_loopback

__all__ = ["TLS_FLAGS", "check_address", "check_listening"]

TLS_FLAGS: Final = ("--tls-cert-file", "--tls-private-key-file", "--client-ca-file")
"""The options of mutual TLS."""


def check_listening(host: str, tls_files: Sequence[object | None]) -> None:
    """Check the address of the verbs.

    Args:
        host: the address to listen on. Empty: all addresses.
        tls_files: the values of `TLS_FLAGS`; None: not given.

    Raises:
        UsageError: mutual TLS is incomplete, or other machines could send requests over plain HTTP.
    """
    given = [each is not None for each in tls_files]
    if any(given) and not all(given):
        missing = ", ".join(flag for flag, is_given in zip(TLS_FLAGS, given, strict=True) if not is_given)
        raise UsageError(f"{', '.join(TLS_FLAGS)}: set all three or none; missing: {missing}")
    if not any(given) and not is_loopback(host):
        raise UsageError(
            f"--host {host or 'not set (all addresses)'}: plain HTTP is possible only on 127.0.0.1, ::1 or "
            f"localhost, because each client can bind pods. Set {', '.join(TLS_FLAGS)}"
        )


def check_address(option: str, url: str, files: tuple[str, str, str]) -> None:
    """Check the address of the extender for a client.

    Args:
        option: the option with the address, for messages.
        url: the address.
        files: the values of `--ca-file`, `--cert-file` and `--key-file`; empty: not given.

    Raises:
        UsageError: the address is not one of the extender, or address and files contradict each other.
    """
    try:
        parts = urlsplit(url)
        has_port = parts.port is not None
    except ValueError as error:
        raise UsageError(f"{option} {url}: {error}") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or not has_port:
        raise UsageError(f"{option} {url}: must be http://HOST:PORT or https://HOST:PORT")
    if parts.path.rstrip("/") or parts.query or parts.fragment:
        raise UsageError(f"{option} {url}: must have no path, because the client appends the verb")
    flags = dict(zip(("--ca-file", "--cert-file", "--key-file"), files, strict=True))
    if parts.scheme == "https":
        missing = ", ".join(flag for flag, value in flags.items() if not value)
        if missing:
            raise UsageError(f"{option} {url}: https needs {missing}, because both sides verify certificates")
    elif given := ", ".join(flag for flag, value in flags.items() if value):
        raise UsageError(f"{option} {url}: {given} needs https")
    elif not is_loopback(parts.hostname):
        raise UsageError(
            f"{option} {url}: plain HTTP is possible only to 127.0.0.1, ::1 or localhost; use https"
        )
