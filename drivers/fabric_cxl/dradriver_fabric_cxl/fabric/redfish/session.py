"""Requests in a session of the manager. The session is renewed when it ends, or when the files change."""

import asyncio
import datetime as dt
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from redfish.aio import AsyncRedfishClient, RedfishConnectionError, RedfishError

from dradriver_fabric_cxl.fabric.errors import (
    AnswerLostError,
    AuthenticationError,
    FabricError,
    ManagerUnreachableError,
)
from dradriver_fabric_cxl.fabric.pace import FabricPace
from dradriver_fabric_cxl.fabric.redfish.answers import (
    RedfishAnswer,
    make_http_error,
    parse_retry_after,
    to_path,
)
from dradriver_fabric_cxl.fabric.redfish.credentials import CredentialFiles, Credentials

__all__ = ["ROOT", "RedfishSession"]

ROOT: Final = "/redfish/v1/"
_SESSIONS: Final = "/redfish/v1/SessionService/Sessions"
_UNAUTHORIZED: Final = 401
_FIRST_FAILURE: Final = 300

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Login:
    credentials: Credentials
    token: str = field(repr=False)
    location: str
    client: Any  # AsyncRedfishClient has no types


class RedfishSession:
    """One user's access to one manager. No error and no log line has the password or the token.

    Args:
        url: `https://HOST:PORT` of the manager.
        http: transport with the manager's CA. The caller closes it.
        credentials: files with user and password.
        pace: time limits.

    Attributes:
        url: the same, without a slash at its end.
        http: the transport.
        breaks: number of requests without an answer. The manager may have restarted after each.
    """

    def __init__(
        self, url: str, http: aiohttp.ClientSession, credentials: CredentialFiles, pace: FabricPace
    ) -> None:
        self.url = url.rstrip("/")
        self.http = http
        self.breaks = 0
        self._files = credentials
        self._pace = pace
        self._login: _Login | None = None
        self._lock = asyncio.Lock()
        self._rejected: tuple[Credentials, float] | None = None

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> RedfishAnswer:
        """Make a request, again in a new session if the manager does not accept the session.

        A request that the manager may have executed is not repeated: 401 means that it was not.

        Args:
            method: GET, POST or DELETE.
            path: path of the resource.
            body: the JSON object.
            headers: more headers.

        Returns:
            The answer with any status except 401.

        Raises:
            AnswerLostError: the connection broke or the time was over after the request was sent.
            AuthenticationError: the manager does not accept the user.
            ManagerUnreachableError: the manager does not answer.
        """
        login = await self._log_in()
        answer = await self._send(login.client, method, path, body, headers)
        if answer.status == _UNAUTHORIZED:
            self.expire(login.token)
            login = await self._log_in()
            answer = await self._send(login.client, method, path, body, headers)
        if answer.status == _UNAUTHORIZED:
            raise self.make_error(answer)
        return answer

    async def token(self) -> str:
        """Return the token of the present session, for a request with the transport itself."""
        return (await self._log_in()).token

    def expire(self, token: str) -> None:
        """Forget a session that the manager does not accept.

        Args:
            token: token of the session.
        """
        if self._login is not None and self._login.token == token:
            self._login = None

    def make_error(self, answer: RedfishAnswer) -> FabricError:
        """Return the error for an answer, without secrets that the manager repeats.

        Args:
            answer: an answer that is no success.
        """
        error = make_http_error(answer)
        self.redact(error)
        return error

    def redact(self, error: FabricError) -> None:
        """Remove the secrets of the session from the text of an error.

        Args:
            error: an error with messages of the manager.
        """
        if self._login is not None:
            self._redact(error, self._login.token, self._login.credentials.password)

    async def close(self) -> None:
        """End the session, best effort. If the process dies before, the manager ends the unused session."""
        async with self._lock:
            login, self._login = self._login, None
            if login is not None:
                await self._log_out(login)

    async def _log_in(self) -> _Login:
        async with self._lock:
            credentials = await self._files.read()
            if self._login is not None and self._login.credentials == credentials:
                return self._login
            if self._login is not None:
                await self._log_out(self._login)
                self._login = None
            self._check_rejected(credentials)
            self._login = await self._start(credentials)
            return self._login

    def _check_rejected(self, credentials: Credentials) -> None:
        """Spare the manager the same wrong password every second: it would lock the account."""
        if self._rejected is None:
            return
        rejected, until = self._rejected
        if rejected == credentials and self._pace.clock() < until:
            raise AuthenticationError(f"{self.url}: the manager rejected user {credentials.user}")
        self._rejected = None

    async def _start(self, credentials: Credentials) -> _Login:
        anonymous = AsyncRedfishClient(self.url, session=self.http, timeout=self._pace.request)
        root = await self._send(anonymous, "GET", ROOT)
        links = root.body.get("Links")
        sessions = links.get("Sessions") if isinstance(links, Mapping) else None
        path = to_path(sessions.get("@odata.id")) if isinstance(sessions, Mapping) else ""
        answer = await self._send(
            anonymous,
            "POST",
            path or _SESSIONS,
            {"UserName": credentials.user, "Password": credentials.password},
            is_login=True,
        )
        if answer.status in {_UNAUTHORIZED, 403}:
            self._rejected = credentials, self._pace.clock() + self._pace.login
            raise AuthenticationError(f"{self.url}: the manager rejected user {credentials.user}")
        if answer.status >= _FIRST_FAILURE:
            error = make_http_error(answer)
            self._redact(error, credentials.password)
            raise ManagerUnreachableError(str(error)) if isinstance(error, AnswerLostError) else error
        location = answer.location or to_path(answer.body.get("@odata.id"))
        if not answer.token or not location:
            raise FabricError(f"{self.url}{path}: the new session has no X-Auth-Token or no Location")
        client = AsyncRedfishClient(
            self.url,
            session=self.http,
            timeout=self._pace.request,
            session_key=answer.token,
            session_location=location,
        )
        return _Login(credentials, answer.token, location, client)

    async def _log_out(self, login: _Login) -> None:
        try:
            await self._send(login.client, "DELETE", login.location)
        except FabricError as error:
            _log.debug("the session was not ended", extra={"error": str(error)})

    async def _send(
        self,
        client: Any,  # noqa: ANN401 - AsyncRedfishClient has no types
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        is_login: bool = False,
    ) -> RedfishAnswer:
        calls = {"GET": client.get, "POST": client.post, "DELETE": client.delete}
        arguments = {"headers": dict(headers or {})} | ({} if body is None else {"body": dict(body)})
        name = f"{method} {self.url}{path}"
        try:
            response = await calls[method](path, **arguments)
        except RedfishConnectionError as error:
            self.breaks += 1
            cause = error.__cause__
            lost = method != "GET" and not is_login and not isinstance(cause, aiohttp.ClientConnectorError)
            reason = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
            raise (AnswerLostError if lost else ManagerUnreachableError)(f"{name}: {reason}") from None
        except RedfishError as error:
            raise FabricError(f"{name}: {error}") from None
        retry_after = parse_retry_after(response.getheader("Retry-After"), dt.datetime.now(dt.UTC))
        try:
            content = response.dict
        except RedfishError:
            content = None  # a proxy may answer with a page
        found = content if isinstance(content, dict) else {}
        return RedfishAnswer(
            path,
            method,
            response.status,
            found,
            to_path(response.getheader("Location")),
            response.getheader("ETag") or str(found.get("@odata.etag", "")),
            retry_after,
            response.getheader("X-Auth-Token") or "",
        )

    @staticmethod
    def _redact(error: FabricError, *secrets: str) -> None:
        text = str(error)
        for secret in secrets:
            text = text.replace(secret, "***") if secret else text
        error.args = (text,)
