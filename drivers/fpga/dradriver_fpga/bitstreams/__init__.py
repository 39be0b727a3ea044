"""Reads bitstreams from a folder, a ConfigMap or a URL, approves and caches them.

Law of this package: it must return only files with the requested digest. If a claim names a file or a URL, this
package must read it only if the operator's settings allow this.

- `cache`: `BitstreamCache`, files by digest and source in a folder of bounded size.
- `sources`: opens folders, ConfigMaps and URLs.
- `download`: downloads a file from an allowed URL.
- `addresses`: rejects addresses of servers, such as those of metadata services.
- `approval`: the operator's approvals: listed digests and Ed25519 signatures.
- `policy`: the namespaces that may program devices.
- `failed_bitstreams`: bitstreams that failed on cards of this node.
- `errors`: `BitstreamError`.
"""

from dradriver_fpga.bitstreams.approval import Approval, BitstreamApprover
from dradriver_fpga.bitstreams.cache import BitstreamCache
from dradriver_fpga.bitstreams.errors import BitstreamError
from dradriver_fpga.bitstreams.failed_bitstreams import FailedBitstreams
from dradriver_fpga.bitstreams.policy import PolicyRequest, require_allowed
from dradriver_fpga.bitstreams.sources import BitstreamSources, ConfigMapReader

__all__ = [
    "Approval",
    "BitstreamApprover",
    "BitstreamCache",
    "BitstreamError",
    "BitstreamSources",
    "ConfigMapReader",
    "FailedBitstreams",
    "PolicyRequest",
    "require_allowed",
]
