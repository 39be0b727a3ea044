"""The OData documents of the service.

Source: Redfish specification (DSP0266), "OData metadata" and "OData service document".
"""

from collections.abc import Iterable
from typing import Any, Final

from dradriver_fabric_cxl.emulator.resources.paths import (
    CHASSIS,
    FABRIC,
    ROOT,
    SESSIONS,
    SYSTEMS,
    TASKS,
    parent_of,
)

__all__ = ["make_metadata", "make_service_document"]

_SCHEMAS: Final = "http://redfish.dmtf.org/schemas/v1"
_EDMX: Final = "http://docs.oasis-open.org/odata/ns/edmx"
_EDM: Final = "http://docs.oasis-open.org/odata/ns/edm"


def make_metadata(types: Iterable[str]) -> str:
    """Return the metadata document in XML.

    Args:
        types: the `@odata.type` of all resources, for example "#Role.v1_3_1.Role".
    """
    namespaces: dict[str, set[str]] = {"Message": {"Message"}, "Event": {"Event"}}
    for kind in types:
        namespace = kind.removeprefix("#").rpartition(".")[0]
        schema = namespace.partition(".")[0]
        namespaces.setdefault(schema, {schema}).add(namespace)
    references = "".join(
        f'<edmx:Reference Uri="{_SCHEMAS}/{schema}_v1.xml">'
        + "".join(f'<edmx:Include Namespace="{each}"/>' for each in sorted(included))
        + "</edmx:Reference>"
        for schema, included in sorted(namespaces.items())
    )
    container = (
        f'<edmx:DataServices><Schema xmlns="{_EDM}" Namespace="Service">'
        '<EntityContainer Name="Service" Extends="ServiceRoot.v1_20_0.ServiceContainer"/>'
        "</Schema></edmx:DataServices>"
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        f'<edmx:Edmx xmlns:edmx="{_EDMX}" Version="4.0">{references}{container}</edmx:Edmx>'
    )


def make_service_document() -> dict[str, Any]:
    """Return the service document: what is directly below the service root."""
    services = {
        "Service": f"{ROOT}/",
        "Systems": SYSTEMS,
        "Chassis": CHASSIS,
        "Fabrics": parent_of(FABRIC),
        "Tasks": parent_of(TASKS),
        "SessionService": parent_of(SESSIONS),
        "Sessions": SESSIONS,
    }
    return {
        "@odata.context": f"{ROOT}/$metadata",
        "value": [{"name": name, "kind": "Singleton", "url": url} for name, url in services.items()],
    }
