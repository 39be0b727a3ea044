"""The result of `prepare()` for one device."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dradriver.model.cdi import ContainerEdits
from dradriver.model.core.meta import Condition
from dradriver.model.encoding.plain_input import as_tuple, wrap_field_error
from dradriver.model.resource.claim import NetworkData
from dradriver.model.resource.device import AttributeLike

__all__ = ["DeviceMetadata", "PreparedDevice"]


@dataclass(frozen=True, slots=True)
class DeviceMetadata:
    """Metadata of a device that becomes known after `prepare` (KEP-5304); containers read it.

    Attributes:
        attributes: all attributes. They replace the earlier ones.
        network: addresses of a network interface. None removes the earlier ones.
    """

    attributes: Mapping[str, AttributeLike] = field(default_factory=dict)
    network: NetworkData | None = None


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One prepared device: changes to its containers, and values for the claim's status.

    Attributes:
        edits: what the container runtime adds to each container that uses the device.
        metadata: attributes that containers read as device metadata (KEP-5304). None: containers get no file
            with metadata, unless `network` is set. An empty mapping: they get a file that
            `Driver.update_metadata` fills later.
        data: JSON data for `status.devices[].data`, at most 10 KiB. None: no data.
        conditions: conditions for `status.devices[].conditions`, at most 8.
        network: addresses of a network interface, for the status and the metadata.
        cdi_ids: IDs of existing CDI devices (created by the driver or the vendor's tool), used in addition to
            the spec that the SDK writes from `edits`.
    """

    edits: ContainerEdits = field(default_factory=ContainerEdits)
    metadata: Mapping[str, AttributeLike] | None = None
    data: Mapping[str, object] | None = None
    conditions: tuple[Condition, ...] = ()
    network: NetworkData | None = None
    cdi_ids: tuple[str, ...] = ()

    if TYPE_CHECKING:
        # dataclass sets the fields' defaults; __post_init__ accepts any iterable.
        def __init__(
            self,
            edits: ContainerEdits = ...,
            metadata: Mapping[str, AttributeLike] | None = ...,
            data: Mapping[str, object] | None = ...,
            conditions: Iterable[Condition] = ...,
            network: NetworkData | None = ...,
            cdi_ids: Iterable[str] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Convert iterables to tuples.

        Raises:
            TypeError: a field is not a list. The message names the field.
        """
        for name in ("conditions", "cdi_ids"):
            try:
                object.__setattr__(self, name, as_tuple(getattr(self, name)))
            except TypeError as error:
                raise wrap_field_error("prepared device", name, error) from None
