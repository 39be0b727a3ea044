"""What a driver answers for a device that it prepared."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dradriver.model.cdi import ContainerEdits
from dradriver.model.core.meta import Condition
from dradriver.model.encoding.plain_input import as_tuple, misfit
from dradriver.model.resource.claim import NetworkData
from dradriver.model.resource.device import AttributeLike

__all__ = ["DeviceMetadata", "PreparedDevice"]


@dataclass(frozen=True, slots=True)
class DeviceMetadata:
    """What containers read about a device (KEP-5304), when it becomes known after `prepare`.

    Attributes:
        attributes: all of them; they replace those that were told before.
        network: addresses of a network interface; None takes back those that were told before.
    """

    attributes: Mapping[str, AttributeLike] = field(default_factory=dict)
    network: NetworkData | None = None


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One prepared device: what the container gets, and what others may learn.

    Attributes:
        edits: what the container runtime adds to each container that uses the device.
        metadata: attributes that containers read as device metadata (KEP-5304). None, and no `network`: there
            is nothing to read; an empty mapping: a file that `Driver.update_metadata` fills later.
        data: JSON data for `status.devices[].data`, at most 10 KiB; None writes nothing.
        conditions: conditions for `status.devices[].conditions`, at most 8.
        network: addresses of a network interface, for the status and the metadata.
        cdi_ids: IDs of CDI devices that exist already (made by the driver or the vendor's tool), used besides
            the spec that the SDK writes from `edits`.
    """

    edits: ContainerEdits = field(default_factory=ContainerEdits)
    metadata: Mapping[str, AttributeLike] | None = None
    data: Mapping[str, object] | None = None
    conditions: tuple[Condition, ...] = ()
    network: NetworkData | None = None
    cdi_ids: tuple[str, ...] = ()

    if TYPE_CHECKING:
        # The fields' defaults are dataclass's work; __post_init__ accepts any iterable.
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
        """Turns iterables into tuples.

        Raises:
            TypeError: a field is no list; the message names it.
        """
        for name in ("conditions", "cdi_ids"):
            try:
                object.__setattr__(self, name, as_tuple(getattr(self, name)))
            except TypeError as error:
                raise misfit("prepared device", name, error) from None
