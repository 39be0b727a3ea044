"""Asks a running process of `dradriver scheduler run` about a pod."""

import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Final

from dradriver.errors import DraError, InvalidObjectError
from dradriver.extender.addresses import check_address
from dradriver.extender.protocol import PodState
from dradriver.model.encoding.codec import decode

__all__ = ["ask_extender"]

_SECONDS: Final = 5.0


def ask_extender(url: str, ref: str, *, ca_file: str = "", cert_file: str = "", key_file: str = "") -> str:
    """Return one sentence about what the process knows about a pod.

    Args:
        url: the address of the process: http://HOST:PORT on this machine, or https://HOST:PORT.
        ref: `namespace/name` of the pod.
        ca_file: with https: the certificates (PEM) of the authority of the process.
        cert_file: with https: the client certificate (PEM).
        key_file: with https: the private key (PEM) of this certificate.

    Raises:
        UsageError: the address is wrong, or https lacks a file.
        DraError: a file cannot be read, the process cannot be reached, or does not lead.
    """
    check_address("--extender", url, (ca_file, cert_file, key_file))
    target = f"{url.rstrip('/')}/explain?{urllib.parse.urlencode({'pod': ref})}"
    try:
        context = _client_context(ca_file, cert_file, key_file) if ca_file else None
        # The scheme was checked above.
        with urllib.request.urlopen(target, timeout=_SECONDS, context=context) as answer:  # noqa: S310
            state = decode(PodState, answer.read(), "the answer of the extender")
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace").strip()
        raise DraError(f"--extender {url}: {text or error.reason}") from None
    except (OSError, InvalidObjectError) as error:
        raise DraError(f"--extender {url}: {error}") from None
    return f"pod {state.pod}: {state.state}: {state.message}"


def _client_context(ca_file: str, cert_file: str, key_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    context.load_cert_chain(cert_file, key_file)
    return context
