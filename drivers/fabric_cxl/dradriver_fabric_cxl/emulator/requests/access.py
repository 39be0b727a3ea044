"""Sessions, accounts and privileges.

Source: Redfish specification (DSP0266), "Authentication" and "Authorization".
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dradriver_fabric_cxl.emulator.resources.messages import RedfishError
from dradriver_fabric_cxl.emulator.resources.paths import (
    ACCOUNTS,
    FIRST_ACCOUNT,
    ROLES,
    SESSIONS,
    last_part,
    link,
    parent_of,
)
from dradriver_fabric_cxl.emulator.resources.services import PRIVILEGES
from dradriver_fabric_cxl.emulator.storage import Body, State, Storage

__all__ = ["Access", "Identity", "hash_password"]

_ROUNDS: Final = (
    1000  # few on purpose: the emulator protects nothing, and basic authentication hashes each time
)
_CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="Redfish"'}


@dataclass(frozen=True)
class Identity:
    """Who sent a request.

    Attributes:
        user: name of the account.
        privileges: privileges of its role.
    """

    user: str
    privileges: frozenset[str]


def hash_password(password: str) -> tuple[str, str]:
    """Return a new salt and the hash of a password."""
    salt = secrets.token_hex(8)
    return salt, _digest(password, salt)


class Access:
    """Checks requests against sessions and accounts.

    Args:
        storage: holds sessions and accounts.
        user: name of the first administrator.
        password: password of the first administrator.
        session_seconds: seconds after which an unused session ends.
    """

    def __init__(self, storage: Storage, user: str, password: str, session_seconds: float) -> None:
        self._storage, self._user, self._password = storage, user, password
        self._session_seconds = session_seconds
        self._used: dict[str, float] = {}

    async def start(self) -> None:
        """Make the first administrator's account, with the password of the settings."""
        async with self._storage.change() as state:
            state.resources[FIRST_ACCOUNT] = make_account(last_part(FIRST_ACCOUNT), self._user, "Administrator")
            state.passwords[self._user] = hash_password(self._password)

    async def identify(self, headers: Mapping[str, str]) -> Identity:
        """Return who sent a request.

        Raises:
            RedfishError: 401: neither a valid token nor valid credentials.
        """
        token, authorization = headers.get("X-Auth-Token"), headers.get("Authorization", "")
        if token is not None:
            return self._identity(await self._user_of_token(token))
        if not authorization.lower().startswith("basic "):
            raise _unauthorized()
        try:
            user, _, password = base64.b64decode(authorization[6:], validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise _unauthorized() from None
        self._check_password(user, password)
        return self._identity(user)

    async def log_in(self, body: Body) -> tuple[str, str]:
        """Create a session.

        Returns:
            URI of the session, and its token.

        Raises:
            RedfishError: 400: a property is missing; 401: wrong user or password.
        """
        for name in ("UserName", "Password"):
            if not isinstance(body.get(name), str):
                raise RedfishError(
                    400, "PropertyMissing", f"The property {name} is required.", [name], properties=[f"/{name}"]
                )
        user = body["UserName"]
        self._check_password(user, body["Password"])
        token = secrets.token_hex(24)
        async with self._storage.change() as state:
            number = state.next_number()
            path = f"{SESSIONS}/{number}"
            state.tokens[path] = _hash_token(token)
            state.resources[path] = {
                "@odata.id": path,
                "@odata.type": "#Session.v1_7_1.Session",
                "Id": str(number),
                "Name": f"Session {number}",
                "UserName": user,
                "SessionType": "Redfish",
            }
        self._used[path] = time.monotonic()
        return path, token

    async def end_session(self, path: str) -> None:
        """End a session."""
        async with self._storage.change() as state:
            state.resources.pop(path, None)
            state.tokens.pop(path, None)
        self._used.pop(path, None)

    async def _user_of_token(self, token: str) -> str:
        hashed = _hash_token(token)
        state = self._storage.state
        path = next((path for path, known in state.tokens.items() if hmac.compare_digest(known, hashed)), "")
        if not path:
            raise _unauthorized()
        now = time.monotonic()
        if now - self._used.setdefault(path, now) > self._session_seconds:
            await self.end_session(path)
            raise _unauthorized()
        self._used[path] = now
        user: str = state.resources[path]["UserName"]
        return user

    def _check_password(self, user: str, password: str) -> None:
        salt, known = self._storage.state.passwords.get(user, ("", ""))
        if not hmac.compare_digest(known, _digest(password, salt)):
            raise _unauthorized()

    def _identity(self, user: str) -> Identity:
        account = find_account(self._storage.state, user)
        if account is None or not account["Enabled"]:
            raise _unauthorized()
        return Identity(user, frozenset(PRIVILEGES[account["RoleId"]]))


def find_account(state: State, user: str) -> Body | None:
    """Return the account of a user; None if there is none."""
    for path, body in state.resources.items():
        if parent_of(path) == ACCOUNTS and body["UserName"] == user:
            return body
    return None


def make_account(number: str, user: str, role: str) -> Body:
    """Return the resource of an account."""
    path = f"{ACCOUNTS}/{number}"
    return {
        "@odata.id": path,
        "@odata.type": "#ManagerAccount.v1_13_0.ManagerAccount",
        "Id": number,
        "Name": f"Account {number}",
        "UserName": user,
        "Password": None,
        "RoleId": role,
        "AccountTypes": ["Redfish"],
        "Enabled": True,
        "Locked": False,
        "Links": {"Role": link(f"{ROLES}/{role}")},
    }


def _unauthorized() -> RedfishError:
    text = "The request has no valid session and no valid credentials."
    return RedfishError(401, "NoValidSession", text, headers=_CHALLENGE)


def _hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _digest(password: str, salt: str) -> str:
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt.encode(), _ROUNDS).hex()
