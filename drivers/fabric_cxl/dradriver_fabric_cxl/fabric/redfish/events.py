"""Changes of a fabric, by server-sent events.

Source: Redfish specification (DSP0266), "Server-sent events"; HTML standard, "Server-sent events".
"""

from collections.abc import AsyncGenerator

import aiohttp
from aiohttp.http import HttpProcessingError

from dradriver_fabric_cxl.fabric.errors import ManagerUnreachableError
from dradriver_fabric_cxl.fabric.pace import FabricPace
from dradriver_fabric_cxl.fabric.redfish.session import RedfishSession

__all__ = ["read_events"]


async def read_events(session: RedfishSession, path: str, pace: FabricPace) -> AsyncGenerator[None, None]:
    """Yield once when the stream is open, and once for each event.

    The iterator ends with the stream, and after `pace.silence`, because the connection may be dead.

    Args:
        session: access to the manager.
        path: path of the stream.
        pace: time limits.

    Raises:
        ManagerUnreachableError: the stream cannot be opened, cannot be read, or broke.
    """
    token = await session.token()
    headers = {"Accept": "text/event-stream", "X-Auth-Token": token}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=pace.request, sock_read=pace.silence)
    is_open = False
    try:
        async with session.http.get(
            session.url + path, headers=headers, timeout=timeout, allow_redirects=False
        ) as response:
            if response.status == 401:
                session.expire(token)
            if response.status != 200:
                raise ManagerUnreachableError(f"GET {session.url}{path}: HTTP {response.status}")
            is_open = True
            yield
            has_data = False
            async for line in response.content:
                if line.startswith(b"data"):
                    has_data = True
                elif has_data and not line.strip():
                    has_data = False
                    yield
    except (aiohttp.ClientError, TimeoutError) as error:
        if is_open and isinstance(error, TimeoutError):
            return
        raise ManagerUnreachableError(f"GET {session.url}{path}: {type(error).__name__}") from None
    except (HttpProcessingError, ValueError) as error:
        # aiohttp raises them for a line that is longer than its buffer. Their text has the line.
        raise ManagerUnreachableError(
            f"GET {session.url}{path}: an event cannot be read: {type(error).__name__}"
        ) from None
