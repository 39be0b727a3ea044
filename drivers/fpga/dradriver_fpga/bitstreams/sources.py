"""Reads bitstreams from their sources, in pieces of bytes."""

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

__all__ = ["BitstreamChunks", "BitstreamSources", "ConfigMapReader"]

BitstreamChunks: TypeAlias = AsyncGenerator[bytes, None]

ConfigMapReader: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, bytes]]]
"""Returns the content of a ConfigMap by namespace and name."""

_CHUNK_BYTES: Final = 1 << 20


class BitstreamSources:
    """Opens bitstreams that the operator's rules allow.

    Args:
        rules: the operator's rules.
        config_map: reads ConfigMaps.
    """

    def __init__(self, rules: BitstreamRules, config_map: ConfigMapReader) -> None:
        self._rules = rules
        self._config_map = config_map

    def open(self, bitstream: RequestedBitstream, namespace: str) -> BitstreamChunks:
        """Return the pieces of a file. Errors are raised when the first piece is read.

        Args:
            bitstream: the requested bitstream.
            namespace: namespace of the claim. Only ConfigMaps of this namespace may be read.
        """
        if bitstream.url is not None:
            return download(bitstream.url, self._rules.urls)
        if bitstream.config_map is not None:
            return self._read_config_map(bitstream.config_map, namespace)
        return self._read_file(bitstream.file or "")

    async def _read_config_map(self, key: ConfigMapKey, namespace: str) -> BitstreamChunks:
        data = await self._config_map(namespace, key.name)
        if key.key not in data:
            keys = ", ".join(sorted(data)) or "none"
            raise BitstreamError(
                f"ConfigMap {namespace}/{key.name} has no key {key.key} (its keys: {keys})", "NotFound"
            )
        yield data[key.key]

    async def _read_file(self, name: str) -> BitstreamChunks:
        if not self._rules.folder:
            raise BitstreamError(
                f"file {name}: the settings of this node have no folder of bitstreams", "Refused"
            )
        file = await asyncio.to_thread(_open_regular_file, Path(self._rules.folder), name)
        try:
            while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
                yield chunk
        except OSError as error:
            raise BitstreamError(f"file {name} cannot be read: {error.strerror}", "Unreadable") from error
        finally:
            with contextlib.suppress(OSError):
                file.close()


def _open_regular_file(folder: Path, name: str) -> IO[bytes]:
    """Open a regular file that is inside the folder after all links are resolved. Blocking."""
    try:
        path = (folder / name).resolve(strict=True)
        if not path.is_relative_to(folder.resolve()):
            raise BitstreamError(f"file {name} is outside of the folder {folder}", "Refused")
        if not stat.S_ISREG(path.stat().st_mode):
            raise BitstreamError(f"file {name} in {folder} is not a regular file", "Unreadable")
        return path.open("rb")
    except FileNotFoundError as error:
        raise BitstreamError(f"file {name} does not exist in {folder} of this node", "NotFound") from error
    except OSError as error:
        raise BitstreamError(
            f"file {name} in {folder} cannot be opened: {error.strerror}", "Unreadable"
        ) from error
