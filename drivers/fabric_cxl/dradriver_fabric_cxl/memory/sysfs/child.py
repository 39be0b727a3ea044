"""A program that works for a node's driver in a process of its own. It needs nothing but Python.

- `child.py write TEXT FILE...` writes the text into each file. The exit status is the kernel's error number.
- `child.py clear FILE BYTES CHUNK` overwrites a device with zeros through a mapping, and prints the number of
  bytes after each chunk. It ends when nobody reads them.
"""

import mmap
import os
import sys


def write_files(text: str, paths: list[str]) -> int:
    """Write a text into files; return 0, or the number of the first error."""
    for path in paths:
        try:
            file = os.open(path, os.O_WRONLY)
            os.write(file, text.encode())
            os.close(file)
        except OSError as error:
            return error.errno or 1
    return 0


def clear_device(path: str, size: int, chunk: int) -> int:
    """Overwrite a device with zeros; return 0, or the number of the error."""
    try:
        file = os.open(path, os.O_RDWR)
        with mmap.mmap(file, size) as mapping:
            zeros = bytes(chunk)
            for start in range(0, size, chunk):
                end = min(size, start + chunk)
                mapping[start:end] = zeros[: end - start]
                os.write(sys.stdout.fileno(), b"%d\n" % end)
    except OSError as error:
        return error.errno or 1
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "write":
        sys.exit(write_files(sys.argv[2], sys.argv[3:]))
    sys.exit(clear_device(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
