"""Reads bitstreams from a folder, a ConfigMap or a URL, and caches them by digest.

Law of this package: it must return only files with the requested digest. If a claim names a file or a URL, this
package must read it only if the operator's settings allow this.

- `cache`: `BitstreamCache`, files by digest in a folder of bounded size.
- `sources`: opens folders, ConfigMaps and URLs.
- `download`: downloads a file from an allowed URL.
- `signatures`: checks Ed25519 signatures.
- `failed_bitstreams`: bitstreams that failed on cards of this node.
- `errors`: `BitstreamError`.
"""

from dradriver_fpga.bitstreams.cache import BitstreamCache
from dradriver_fpga.bitstreams.errors import BitstreamError
from dradriver_fpga.bitstreams.failed_bitstreams import FailedBitstreams
from dradriver_fpga.bitstreams.signatures import require_signature
from dradriver_fpga.bitstreams.sources import BitstreamSources, ConfigMapReader

__all__ = [
    "BitstreamCache",
    "BitstreamError",
    "BitstreamSources",
    "ConfigMapReader",
    "FailedBitstreams",
    "require_signature",
]
