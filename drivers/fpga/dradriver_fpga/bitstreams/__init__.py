"""Bitstreams on their way to a card: from a folder, a ConfigMap or a URL, through a cache, by digest.

Law of this package: nothing leaves it that has not the digest it was asked for, and nothing that a claim names
makes it read or ask what the operator's settings do not allow.
"""

from dradriver_fpga.bitstreams.cache import Cache
from dradriver_fpga.bitstreams.errors import BitstreamError
from dradriver_fpga.bitstreams.failed_bitstreams import FailedBitstreams
from dradriver_fpga.bitstreams.signatures import require_signature
from dradriver_fpga.bitstreams.sources import ConfigMapReader, Sources

__all__ = ["BitstreamError", "Cache", "ConfigMapReader", "FailedBitstreams", "Sources", "require_signature"]
