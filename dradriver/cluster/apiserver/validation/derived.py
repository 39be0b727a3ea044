"""Rules of derived attributes: each has a fully qualified name and an expression, and a constraint uses it."""

from collections.abc import Iterator

from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.validation.devices import CEL_LIMIT
from dradriver.cluster.apiserver.validation.field import Causes, check_unique, invalid, required, too_long
from dradriver.cluster.apiserver.validation.names import check_fully_qualified_name

MAX_ATTRIBUTES = 32
_UNUSED = (
    "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
)


def check_derived_attributes(devices: Object, path: str) -> Causes:
    """Check the derived attributes of a claim's requests."""
    causes: Causes = []
    for owner, reference, at in _list_owners(devices, path):
        wanted = _list_constrained(devices, reference)

        def check(attribute: Object, where: str, wanted: set[str] = wanted) -> Causes:
            return _check_derived_attribute(attribute, where, wanted)

        attributes = owner.get("derivedAttributes")
        causes += check_unique(
            attributes, MAX_ATTRIBUTES, check, lambda each: each.get("name", ""), at, show_item=False
        )
    return causes


def _list_owners(devices: Object, path: str) -> Iterator[tuple[Object, str, str]]:
    """Yield each request with derived attributes, the request's name in constraints, and the path."""
    for index, request in enumerate(devices.get("requests") or ()):
        at, name = f"{path}.requests[{index}]", request.get("name", "")
        if request.get("exactly") is not None:
            yield request["exactly"], name, f"{at}.exactly.derivedAttributes"
        for number, sub in enumerate(request.get("firstAvailable") or ()):
            yield sub, f"{name}/{sub.get('name', '')}", f"{at}.firstAvailable[{number}].derivedAttributes"


def _list_constrained(devices: Object, reference: str) -> set[str]:
    """Return the attributes that constraints use on a request.

    A constraint applies to a request if it names the request or its parent, or if it names no request.
    """
    names = {reference, reference.partition("/")[0]}
    return {
        constraint.get("matchAttribute") or constraint.get("distinctAttribute") or ""
        for constraint in devices.get("constraints") or ()
        if not constraint.get("requests") or names & set(constraint["requests"])
    }


def _check_derived_attribute(attribute: Object, path: str, wanted: set[str]) -> Causes:
    name, expression = attribute.get("name", ""), attribute.get("expression", "")
    causes: Causes = []
    if not name:
        causes.append(required(f"{path}.name"))
    else:
        causes += check_fully_qualified_name(name, f"{path}.name")
        if name not in wanted:
            causes.append(invalid(f"{path}.name", name, _UNUSED))
    if not expression:
        causes.append(required(f"{path}.expression"))
    elif len(expression.encode()) > CEL_LIMIT:
        causes.append(too_long(f"{path}.expression", CEL_LIMIT))
    return causes
