"""Bitstreams from a folder, a ConfigMap or a URL, through a cache that is addressed by digest.

Law of this package: it returns only files with the requested digest. It reads a file or a URL that a claim
names only if the operator's settings allow it.

- `cache`: `Cache`, files by digest in a folder of bounded size.
- `sources`: opens folders, ConfigMaps and URLs.
- `download`: downloads a file from an allowed URL.
- `signatures`: checks Ed25519 signatures.
- `failed_bitstreams`: bitstreams that failed on cards of this node.
- `errors`: `BitstreamError`.
"""

from dradriver_fpga.bitstreams.cache import Cache
from dradriver_fpga.bitstreams.errors import BitstreamError
from dradriver_fpga.bitstreams.failed_bitstreams import FailedBitstreams
from dradriver_fpga.bitstreams.signatures import require_signature
from dradriver_fpga.bitstreams.sources import ConfigMapReader, Sources

__all__ = ["BitstreamError", "Cache", "ConfigMapReader", "FailedBitstreams", "Sources", "require_signature"]
