"""Changes of accounts.

Source: Redfish specification (DSP0266), "PATCH (update)" and "AccountService".
"""

from typing import Any, Final

from dradriver_fabric_cxl.emulator.requests.access import find_account, hash_password, make_account
from dradriver_fabric_cxl.emulator.resources.messages import RedfishError, describe_error
from dradriver_fabric_cxl.emulator.resources.paths import ACCOUNTS, FIRST_ACCOUNT, ROLES, link
from dradriver_fabric_cxl.emulator.resources.services import PRIVILEGES
from dradriver_fabric_cxl.emulator.storage import Body, Precondition, Storage

__all__ = ["create_account", "delete_account", "update_account"]

_SHORTEST_PASSWORD: Final = 8
_UPDATABLE: Final = ("Password", "RoleId", "Enabled")


async def create_account(storage: Storage, body: Body) -> str:
    """Add an account; return its URI.

    Raises:
        RedfishError: a property is missing or wrong, or the user exists.
    """
    for name in ("UserName", "Password", "RoleId"):
        if not body.get(name):
            text = f"The property {name} is required."
            raise RedfishError(400, "CreateFailedMissingReqProperties", text, [name], properties=[f"/{name}"])
    for name in ("Password", "RoleId"):
        _check(name, body[name])
    async with storage.change() as state:
        user = str(body["UserName"])
        if find_account(state, user) is not None:
            raise RedfishError(
                400, "ResourceAlreadyExists", f"The user {user} exists.", ["ManagerAccount", "UserName"]
            )
        number = str(state.next_number())
        state.resources[f"{ACCOUNTS}/{number}"] = make_account(number, user, body["RoleId"])
        state.passwords[user] = hash_password(body["Password"])
    return f"{ACCOUNTS}/{number}"


async def update_account(storage: Storage, path: str, body: Body, precondition: Precondition) -> dict[str, Any]:
    """Change an account.

    Args:
        storage: holds the account.
        path: its URI.
        body: the new values.
        precondition: called before the change.

    Returns:
        Annotations about the properties that were ignored, for the answer.

    Raises:
        RedfishError: no property can be changed, or a value is wrong.
    """
    changes = {name: value for name, value in body.items() if name in _UPDATABLE}
    ignored = [name for name in body if name not in changes and "@odata." not in name]
    if not changes and not ignored:
        raise RedfishError(400, "NoOperation", "The request has only OData annotations.")
    if not changes:
        raise RedfishError(
            400,
            "PropertyUnknown",
            f"The property {ignored[0]} cannot be changed.",
            [ignored[0]],
            properties=[f"/{name}" for name in ignored],
        )
    for name, value in changes.items():
        _check(name, value)
    async with storage.change() as state:
        precondition(state)
        account = state.resources[path]
        if "Password" in changes:
            state.passwords[account["UserName"]] = hash_password(changes.pop("Password"))
        account |= changes
        account["Links"] = {"Role": link(f"{ROLES}/{account['RoleId']}")}
    return {"@Message.ExtendedInfo": [_unknown_property(name) for name in ignored]} if ignored else {}


async def delete_account(storage: Storage, path: str, precondition: Precondition) -> None:
    """Delete an account.

    Args:
        storage: holds the account.
        path: its URI.
        precondition: called before the change.

    Raises:
        RedfishError: it is the first administrator's.
    """
    if path == FIRST_ACCOUNT:
        raise RedfishError(409, "ResourceCannotBeDeleted", "The first administrator cannot be deleted.")
    async with storage.change() as state:
        precondition(state)
        user = state.resources.pop(path)["UserName"]
        del state.passwords[user]


def _unknown_property(name: str) -> dict[str, Any]:
    text = f"The property {name} cannot be changed."
    error = describe_error("PropertyUnknown", text, [name], [f"/{name}"])["error"]
    message: dict[str, Any] = error["@Message.ExtendedInfo"][0]
    return message


def _check(name: str, value: object) -> None:
    valid = {
        "Password": isinstance(value, str) and len(value) >= _SHORTEST_PASSWORD,
        "RoleId": value in PRIVILEGES,
        "Enabled": isinstance(value, bool),
    }[name]
    if not valid:
        shown = "******" if name == "Password" else str(value)
        text = f"The value of {name} is not valid."
        raise RedfishError(400, "PropertyValueFormatError", text, [shown, name], properties=[f"/{name}"])
