"""The resources of the manager itself: service root, services, roles."""

from typing import Any, Final

from dradriver_fabric_cxl.emulator.resources.paths import (
    ACCOUNTS,
    CHASSIS,
    EVENT_STREAM,
    EVENTS,
    FABRIC,
    ROLES,
    ROOT,
    SESSIONS,
    SUBSCRIPTIONS,
    SYSTEMS,
    TASKS,
    link,
    parent_of,
)

__all__ = ["PRIVILEGES", "SERVICE_UUID", "make_collection", "make_services"]

SERVICE_UUID: Final = "3fa9d2e4-61b7-4c0e-9a35-7d1c0e5b8f42"
PRIVILEGES: Final = {
    "Administrator": ("Login", "ConfigureManager", "ConfigureUsers", "ConfigureComponents", "ConfigureSelf"),
    "Operator": ("Login", "ConfigureComponents", "ConfigureSelf"),
    "ReadOnly": ("Login", "ConfigureSelf"),
}
"""Privileges of the predefined roles (DSP0266, "Roles")."""

_OK: Final = {"State": "Enabled", "Health": "OK"}


def make_collection(path: str, kind: str, name: str) -> dict[str, Any]:
    """Return a collection without its members.

    Args:
        path: its URI.
        kind: its type, for example "SessionCollection".
        name: its name for people.
    """
    return {"@odata.id": path, "@odata.type": f"#{kind}.{kind}", "Name": name}


def make_services(session_seconds: float) -> dict[str, dict[str, Any]]:
    """Return the resources by URI.

    Args:
        session_seconds: seconds after which an unused session ends.
    """
    bodies = [
        _root(),
        make_collection(SYSTEMS, "ComputerSystemCollection", "Computer Systems"),
        make_collection(CHASSIS, "ChassisCollection", "Chassis"),
        make_collection(parent_of(FABRIC), "FabricCollection", "Fabrics"),
        make_collection(TASKS, "TaskCollection", "Tasks"),
        make_collection(SUBSCRIPTIONS, "EventDestinationCollection", "Event Subscriptions"),
        make_collection(SESSIONS, "SessionCollection", "Sessions"),
        make_collection(ACCOUNTS, "ManagerAccountCollection", "Accounts"),
        make_collection(ROLES, "RoleCollection", "Roles"),
        _task_service(),
        _event_service(),
        _session_service(session_seconds),
        _account_service(),
        *(_role(name, privileges) for name, privileges in PRIVILEGES.items()),
    ]
    return {body["@odata.id"].rstrip("/"): body for body in bodies}


def _root() -> dict[str, Any]:
    return {
        "@odata.id": f"{ROOT}/",
        "@odata.type": "#ServiceRoot.v1_20_0.ServiceRoot",
        "Id": "RootService",
        "Name": "Emulated fabric manager",
        "RedfishVersion": "1.18.0",
        "UUID": SERVICE_UUID,
        "Product": "dradriver fabric emulator",
        "Systems": link(SYSTEMS),
        "Chassis": link(CHASSIS),
        "Fabrics": link(parent_of(FABRIC)),
        "Tasks": link(parent_of(TASKS)),
        "EventService": link(EVENTS),
        "SessionService": link(parent_of(SESSIONS)),
        "AccountService": link(parent_of(ACCOUNTS)),
        "Links": {"Sessions": link(SESSIONS)},
    }


def _task_service() -> dict[str, Any]:
    return {
        "@odata.id": parent_of(TASKS),
        "@odata.type": "#TaskService.v1_3_0.TaskService",
        "Id": "TaskService",
        "Name": "Task Service",
        "ServiceEnabled": True,
        "CompletedTaskOverWritePolicy": "Oldest",
        "LifeCycleEventOnTaskStateChange": True,
        "Status": _OK,
        "Tasks": link(TASKS),
    }


def _event_service() -> dict[str, Any]:
    return {
        "@odata.id": EVENTS,
        "@odata.type": "#EventService.v1_11_0.EventService",
        "Id": "EventService",
        "Name": "Event Service",
        "ServiceEnabled": True,
        "DeliveryRetryAttempts": 0,
        "EventFormatTypes": ["Event"],
        "RegistryPrefixes": ["ResourceEvent", "TaskEvent"],
        "ServerSentEventUri": EVENT_STREAM,
        "Status": _OK,
        "Subscriptions": link(SUBSCRIPTIONS),
    }


def _session_service(session_seconds: float) -> dict[str, Any]:
    return {
        "@odata.id": parent_of(SESSIONS),
        "@odata.type": "#SessionService.v1_2_0.SessionService",
        "Id": "SessionService",
        "Name": "Session Service",
        "ServiceEnabled": True,
        "SessionTimeout": max(30, int(session_seconds)),
        "Status": _OK,
        "Sessions": link(SESSIONS),
    }


def _account_service() -> dict[str, Any]:
    return {
        "@odata.id": parent_of(ACCOUNTS),
        "@odata.type": "#AccountService.v1_18_0.AccountService",
        "Id": "AccountService",
        "Name": "Account Service",
        "ServiceEnabled": True,
        "HTTPBasicAuth": "Enabled",
        "MinPasswordLength": 8,
        "Status": _OK,
        "Accounts": link(ACCOUNTS),
        "Roles": link(ROLES),
    }


def _role(name: str, privileges: tuple[str, ...]) -> dict[str, Any]:
    return {
        "@odata.id": f"{ROLES}/{name}",
        "@odata.type": "#Role.v1_3_1.Role",
        "Id": name,
        "Name": f"Role {name}",
        "RoleId": name,
        "IsPredefined": True,
        "AssignedPrivileges": list(privileges),
    }
