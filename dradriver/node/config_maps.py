"""Read ConfigMaps for drivers whose users keep data in them."""

import base64
import binascii
from collections.abc import Mapping

import msgspec

from dradriver.errors import DraError
from dradriver.kube.resources import CONFIG_MAPS
from dradriver.node.api import Getter

__all__ = ["read_config_map"]


class _ConfigMap(msgspec.Struct, frozen=True, rename="camel"):
    data: Mapping[str, str] = {}
    binary_data: Mapping[str, str] = {}


async def read_config_map(client: Getter, namespace: str, name: str) -> Mapping[str, bytes]:
    """Return the content of a ConfigMap, by key.

    Raises:
        DraError: it does not exist, or the driver may not read it.
    """
    found = await client.get(CONFIG_MAPS, name, namespace, into=_ConfigMap)
    try:
        binary = {key: base64.b64decode(text, validate=True) for key, text in found.binary_data.items()}
    except binascii.Error as error:
        raise DraError(f"ConfigMap {namespace}/{name}: binaryData is not base64: {error}") from error
    return {key: text.encode() for key, text in found.data.items()} | binary
