"""Write device metadata (KEP-5304): files from which containers read data of their devices.

Each request has one file, which is mounted into each container that uses the request. The file contains one
object in every API version of `metadata.resource.k8s.io`, newest first, so that an older reader finds a version
that it supports. The paths in the container, and the fields, are defined by
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

__all__ = ["MetadataDirectory", "build_metadata_files", "find_described_requests"]

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


def find_described_requests(record: ClaimRecord) -> set[str]:
    """Return the requests with at least one device for which the driver returned metadata or network data."""
    return {
        base_request(device.request)
        for device, answer in zip(record.devices, record.answers, strict=True)
        if answer.metadata is not None or answer.network
    }


def build_metadata_files(driver: str, record: ClaimRecord) -> dict[str, bytes]:
    """Return the content of a prepared claim's metadata files, for each of its `find_described_requests`."""
    described = find_described_requests(record)
    if not described:
        return {}
    by_request: dict[str, list[tuple[str, _Device]]] = {}
    for device, answer in zip(record.devices, record.answers, strict=True):
        request = base_request(device.request)
        entry = _Device(
            driver=driver,
            pool=device.pool,
            name=device.device,
            attributes=answer.metadata or {},
            network_data=answer.network,
        )
        by_request.setdefault(request, []).append((device.request, entry))
    return {
        request: _encode_versions(record, request_devices)
        for request, request_devices in by_request.items()
        if request in described
    }


def _encode_versions(record: ClaimRecord, devices: list[tuple[str, _Device]]) -> bytes:
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
    return b"".join(canonical(version) + b"\n" for version in objects)


class MetadataDirectory:
    """Writes and removes the metadata files on the host; `write`, `remove` and `uids` block on the disk."""

    def __init__(self, directory: Path, driver: str) -> None:
        self.directory = directory
        self._driver = driver

    def compute_contents(self, record: ClaimRecord) -> dict[str, bytes]:
        """Return the content of the claim's files, by request, without I/O."""
        return build_metadata_files(self._driver, record)

    def mounts(self, record: ClaimRecord, requests: Iterable[str]) -> dict[str, ContainerEdits]:
        """Return the edits that mount the requests' files into a container, by request, without I/O."""

        def mount(request: str) -> Mount:
            path = str(self._path(record.uid, request))
            return Mount(path, self._container_path(record, request), options=["ro", "bind"])

        return {request: ContainerEdits(mounts=[mount(request)]) for request in requests}

    def write(self, uid: str, contents: Mapping[str, bytes]) -> None:
        """Write the claim's files, except for files that already have the wanted content.

        If the process dies right after it, no container has mounted the files yet. The next prepare uses them.

        Raises:
            OSError: a file cannot be written.
        """
        for request, text in contents.items():
            path = self._path(uid, request)
            if not atomic.has_content(path, text, below=self.directory.parent):
                atomic.write_atomically(path, text, below=self.directory.parent)

    def remove(self, uid: str) -> None:
        """Remove the claim's files, if there are any.

        Raises:
            OSError: a file cannot be removed.
        """
        atomic.remove_folder(self.directory / uid, below=self.directory.parent)

    def uids(self) -> set[str]:
        """Return the UIDs of the claims that have files.

        Raises:
            OSError: the folder cannot be read.
        """
        return set(atomic.list_names(self.directory))

    def _path(self, uid: str, request: str) -> Path:
        return self.directory / uid / f"{request}.json"

    def _container_path(self, record: ClaimRecord, request: str) -> str:
        kind = "resourceclaimtemplates" if record.pod_claim else "resourceclaims"
        name = record.pod_claim or record.name
        return f"{_CONTAINER_DIR}/{kind}/{name}/{request}/{self._driver}-metadata.json"
