"""Objects from files: many in a file, YAML or JSON, each with the place that it came from.

Law of this package: what can't be read is told beside what can, with its file and line. An object's fields
are decoded when somebody looks at them: files of simulations hold hundreds of thousands.
"""

from dradriver.cli.files.documents import Document, Source
from dradriver.cli.files.options import file_options
from dradriver.cli.files.reading import Reading, UnreadError, read_files, read_sound_files

__all__ = ["Document", "Reading", "Source", "UnreadError", "file_options", "read_files", "read_sound_files"]
