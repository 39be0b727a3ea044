"""Sources of bitstreams, as pieces of bytes."""

import asyncio
import contextlib
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import IO, Final, TypeAlias

from dradriver_fpga.bitstreams.download import download
from dradriver_fpga.bitstreams.errors import BitstreamError
from dradriver_fpga.configs import ConfigMapKey, RequestedBitstream
from dradriver_fpga.settings import BitstreamRules

__all__ = ["ConfigMapReader", "Pieces", "Sources"]

Pieces: TypeAlias = AsyncGenerator[bytes, None]

ConfigMapReader: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, bytes]]]
"""Returns the content of a ConfigMap by namespace and name."""

_PIECE: Final = 1 << 20


class Sources:
    """Opens bitstreams as far as the operator's rules allow.

    Args:
        rules: the operator's rules.
        config_map: reads ConfigMaps.
    """

    def __init__(self, rules: BitstreamRules, config_map: ConfigMapReader) -> None:
        self._rules = rules
        self._config_map = config_map

    def open(self, bitstream: RequestedBitstream, namespace: str) -> Pieces:
        """Return the pieces of a file. Errors are raised with the first piece.

        Args:
            bitstream: the requested bitstream.
            namespace: namespace of the claim. Only its ConfigMaps may be read.
        """
        if bitstream.url is not None:
            return download(bitstream.url, self._rules.urls)
        if bitstream.config_map is not None:
            return self._key(bitstream.config_map, namespace)
        return self._file(bitstream.file or "")

    async def _key(self, wanted: ConfigMapKey, namespace: str) -> Pieces:
        data = await self._config_map(namespace, wanted.name)
        if wanted.key not in data:
            known = ", ".join(sorted(data)) or "none"
            raise BitstreamError(
                f"ConfigMap {namespace}/{wanted.name} has no key {wanted.key} (there: {known})", "NotFound"
            )
        yield data[wanted.key]

    async def _file(self, name: str) -> Pieces:
        if not self._rules.folder:
            raise BitstreamError(
                f"file {name}: the settings of this node name no folder of bitstreams", "Refused"
            )
        file = await asyncio.to_thread(_opened, Path(self._rules.folder), name)
        try:
            while piece := await asyncio.to_thread(file.read, _PIECE):
                yield piece
        except OSError as error:
            raise BitstreamError(f"file {name} can't be read: {error.strerror}", "Unreadable") from error
        finally:
            with contextlib.suppress(OSError):
                file.close()


def _opened(folder: Path, name: str) -> IO[bytes]:
    """Open a regular file that is inside the folder after all links are resolved. Blocking."""
    try:
        path = (folder / name).resolve(strict=True)
        if not path.is_relative_to(folder.resolve()):
            raise BitstreamError(f"file {name} leads out of the folder {folder}", "Refused")
        if not stat.S_ISREG(path.stat().st_mode):
            raise BitstreamError(f"file {name} in {folder} is no regular file", "Unreadable")
        return path.open("rb")
    except FileNotFoundError as error:
        raise BitstreamError(f"there is no file {name} in {folder} of this node", "NotFound") from error
    except OSError as error:
        raise BitstreamError(
            f"file {name} in {folder} can't be opened: {error.strerror}", "Unreadable"
        ) from error
