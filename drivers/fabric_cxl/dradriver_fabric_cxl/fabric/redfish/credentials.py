"""User and password of the manager, from files that can change."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from dradriver_fabric_cxl.fabric.errors import AuthenticationError

__all__ = ["CredentialFiles", "Credentials"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a password. The password is in no representation."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CredentialFiles:
    """The files with the user and the password, for example of a mounted secret.

    Attributes:
        user: file with the user's name.
        password: file with the password. White space at its end is removed.
    """

    user: Path
    password: Path

    async def read(self) -> Credentials:
        """Return the content of the files as it is now.

        Raises:
            AuthenticationError: a file cannot be read. The message has its path and never its content.
        """
        return await asyncio.to_thread(self._read)

    def _read(self) -> Credentials:
        try:
            return Credentials(self.user.read_text().strip(), self.password.read_text().rstrip())
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise AuthenticationError(f"{self.user}, {self.password}: cannot be read: {reason}") from None
