"""DeviceClass: selectors and configuration that an administrator offers under one name."""

from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import Value
from dradriver.model.resource.claim import DeviceSelector, OpaqueConfig

__all__ = ["ClassConfig", "DeviceClass", "DeviceClassSpec"]


class ClassConfig(Value, frozen=True):
    """Configuration for every device of the class."""

    opaque: OpaqueConfig | None = None


class DeviceClassSpec(Value, frozen=True, kw_only=True):
    """The selectors and the configuration of the class."""

    selectors: list[DeviceSelector] = []
    config: list[ClassConfig] = []
    extended_resource_name: str | None = None


class DeviceClass(Value, frozen=True, kw_only=True):
    """`resource.k8s.io/v1` DeviceClass."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()
