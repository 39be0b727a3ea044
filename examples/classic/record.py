"""Which claim has which hardware, in a file that outlives the process.

The file takes the place of the database of a fabric manager or a license server. A controller needs such a
record: the allocation in a claim vanishes when somebody clears it, and a new process must know what the last
one did.
"""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class HardwareRecord:
    """The names of the units that each claim has, by the claim's UID.

    Args:
        path: the file. It may be missing: then no claim has anything.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()  # the SDK calls plain methods in several threads

    def read(self) -> dict[str, list[str]]:
        try:
            content: dict[str, list[str]] = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        return content

    @contextmanager
    def change(self) -> Iterator[dict[str, list[str]]]:
        """Yield the content; what the block has changed is on disk when it ends, and nothing if it raises.

        The file is replaced in one step. If the process dies before, the next one finds the old content.
        """
        with self._lock:
            content = self.read()
            yield content
            new = self._path.with_suffix(".new")
            with new.open("w") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
