"""Reads objects from YAML and JSON files.

A file can contain several objects. The lines of each object's fields are known.

Law of this package: it must report unreadable parts with file and line, and read all other parts. An object's
fields are decoded on first use, because the files of a simulation can contain hundreds of thousands of objects.

- `reading`: reads files and returns their documents.
- `documents`: one object of a file.
- `field_lines`: line numbers of an object's fields.
- `yaml_text`: reads YAML with JSON's types only.
"""

from dradriver.cli.files.documents import Document, Source
from dradriver.cli.files.reading import Reading, UnreadableError, file_options, read_files, read_valid_files

__all__ = ["Document", "Reading", "Source", "UnreadableError", "file_options", "read_files", "read_valid_files"]
