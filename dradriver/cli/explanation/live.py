"""Asks a running process of `dradriver scheduler run` about a pod."""

import urllib.error
import urllib.parse
import urllib.request
from typing import Final

from dradriver.errors import DraError, InvalidObjectError, UsageError
from dradriver.extender.protocol import PodState
from dradriver.model.encoding.codec import decode

__all__ = ["ask_extender"]

_SECONDS: Final = 5.0


def ask_extender(url: str, ref: str) -> str:
    """Return one sentence about what the process knows about a pod.

    Args:
        url: the address of the process: http://HOST:PORT.
        ref: `namespace/name` of the pod.

    Raises:
        UsageError: the address is not an address of plain HTTP.
        DraError: the process cannot be reached, or does not lead.
    """
    if not url.startswith("http://"):
        raise UsageError(f"--extender {url}: must be http://HOST:PORT")
    query = urllib.parse.urlencode({"pod": ref})
    try:
        # The scheme was checked above.
        with urllib.request.urlopen(f"{url.rstrip('/')}/explain?{query}", timeout=_SECONDS) as answer:  # noqa: S310
            state = decode(PodState, answer.read(), "the answer of the extender")
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace").strip()
        raise DraError(f"--extender {url}: {text or error.reason}") from None
    except (OSError, InvalidObjectError) as error:
        raise DraError(f"--extender {url}: {error}") from None
    return f"pod {state.pod}: {state.state}: {state.message}"
