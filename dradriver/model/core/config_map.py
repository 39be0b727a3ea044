"""`ConfigMap`: the fields that this project reads or writes."""

from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import Value

__all__ = ["ConfigMap"]


class ConfigMap(Value, frozen=True, kw_only=True):
    """`v1` ConfigMap.

    Attributes:
        metadata: name, namespace, labels and owners.
        data: texts by key.
        binary_data: bytes by key, as base64.
    """

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
