"""Device metadata (KEP-5304): files that containers read about their devices.

Each request has one file, which is mounted into each container that uses the request. It contains the same
object in every API version of `metadata.resource.k8s.io`, newest first, so that older readers find a version
that they support. The paths inside the container and the fields are those of
`k8s.io/dynamic-resource-allocation/api/metadata`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from dradriver.model.cdi import ContainerEdits, Mount
from dradriver.model.encoding.codec import Value, canonical
from dradriver.model.names import base_request
from dradriver.model.resource.claim import NetworkData
from dradriver.model.resource.device import Attribute
from dradriver.node.files import atomic
from dradriver.node.state.records import ClaimRecord

__all__ = ["MetadataDirectory", "described_requests", "metadata_files"]

_CONTAINER_DIR: Final = "/var/run/kubernetes.io/dra-device-attributes"
_VERSIONS: Final = ("metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1")


class _Device(Value, frozen=True, kw_only=True):
    driver: str
    pool: str
    name: str
    attributes: dict[str, Attribute] = {}
    network_data: NetworkData | None = None


class _Request(Value, frozen=True):
    name: str
    devices: list[_Device] = []


class _Meta(Value, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    namespace: str
    uid: str
    generation: int = 1


class _DeviceMetadata(Value, frozen=True, kw_only=True):
    api_version: str
    kind: str
    metadata: _Meta
    pod_claim_name: str | None = None
    requests: list[_Request] = []


def described_requests(record: ClaimRecord) -> set[str]:
    """Return the requests with a device that has attributes (possibly an empty mapping) or network data."""
    return {
        base_request(device.request)
        for device, answer in zip(record.devices, record.answers, strict=True)
        if answer.metadata is not None or answer.network
    }


def metadata_files(driver: str, record: ClaimRecord) -> dict[str, bytes]:
    """Return the content of a prepared claim's metadata files by request, for all `described_requests`."""
    described = described_requests(record)
    if not described:
        return {}
    found: dict[str, list[tuple[str, _Device]]] = {}
    for device, answer in zip(record.devices, record.answers, strict=True):
        request = base_request(device.request)
        entry = _Device(
            driver=driver,
            pool=device.pool,
            name=device.device,
            attributes=answer.metadata or {},
            network_data=answer.network,
        )
        found.setdefault(request, []).append((device.request, entry))
    return {
        request: _stream(record, request_devices)
        for request, request_devices in found.items()
        if request in described
    }


def _stream(record: ClaimRecord, devices: list[tuple[str, _Device]]) -> bytes:
    # All devices of a request come from the same alternative, so they have the same request name.
    request = _Request(devices[0][0], [device for _, device in devices])
    generation = 1 + record.metadata_updates.get(base_request(request.name), 0)
    latest = _DeviceMetadata(
        api_version=_VERSIONS[0],
        kind="DeviceMetadata",
        metadata=_Meta(name=record.name, namespace=record.namespace, uid=record.uid, generation=generation),
        pod_claim_name=record.pod_claim or None,
        requests=[request],
    )
    objects = (msgspec.structs.replace(latest, api_version=version) for version in _VERSIONS)
    return b"".join(canonical(each) + b"\n" for each in objects)


class MetadataDirectory:
    """The metadata files on the host; `write` and `remove` block on the disk."""

    def __init__(self, directory: Path, driver: str) -> None:
        self.directory = directory
        self._driver = driver

    def texts(self, record: ClaimRecord) -> dict[str, bytes]:
        """Return the content of the claim's files by request, without I/O."""
        return metadata_files(self._driver, record)

    def mounts(self, record: ClaimRecord, requests: Iterable[str]) -> dict[str, ContainerEdits]:
        """Return the edits that mount the requests' files into a container, by request, without I/O."""
        return {
            request: ContainerEdits(
                mounts=[
                    Mount(
                        str(self._path(record.uid, request)),
                        self._inside(record, request),
                        options=["ro", "bind"],
                    )
                ]
            )
            for request in requests
        }

    def write(self, uid: str, texts: Mapping[str, bytes]) -> None:
        """Write the claim's files (`metadata_files`), except for those that already have this content.

        If the process dies right after it, no container sees the files. The next prepare uses them.

        Raises:
            OSError: not written.
        """
        for request, text in texts.items():
            path = self._path(uid, request)
            if not atomic.holds(path, text, below=self.directory.parent):
                atomic.write_atomically(path, text, below=self.directory.parent)

    def remove(self, uid: str) -> None:
        """Remove the claim's files, if there are any.

        Raises:
            OSError: they cannot be removed.
        """
        atomic.remove_folder(self.directory / uid, below=self.directory.parent)

    def uids(self) -> set[str]:
        """Return the UIDs of the claims that have files.

        Raises:
            OSError: the folder cannot be read.
        """
        return set(atomic.names(self.directory))

    def _path(self, uid: str, request: str) -> Path:
        return self.directory / uid / f"{request}.json"

    def _inside(self, record: ClaimRecord, request: str) -> str:
        kind, name = (
            ("resourceclaimtemplates", record.pod_claim)
            if record.pod_claim
            else ("resourceclaims", record.name)
        )
        return f"{_CONTAINER_DIR}/{kind}/{name}/{request}/{self._driver}-metadata.json"
