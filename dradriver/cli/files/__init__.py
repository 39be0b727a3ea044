"""Reads objects from files: several in a file, YAML or JSON, each with its place.

Law of this package: unreadable parts are reported with file and line, beside the readable ones. An object's
fields are decoded on first use, because files of simulations hold hundreds of thousands of objects.

- `reading`: turns files into documents.
- `documents`: one object of a file.
- `places`: line numbers of an object's fields.
- `yaml_text`: reads YAML with JSON's types only.
- `options`: the option that names files.
"""

from dradriver.cli.files.documents import Document, Source
from dradriver.cli.files.options import file_options
from dradriver.cli.files.reading import Reading, UnreadError, read_files, read_sound_files

__all__ = ["Document", "Reading", "Source", "UnreadError", "file_options", "read_files", "read_sound_files"]
