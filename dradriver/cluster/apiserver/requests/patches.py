"""JSON patch (RFC 6902), JSON merge patch (RFC 7386) and Kubernetes' strategic merge patch, as pure functions.

The first two work on the object as it was last answered, so that raw bytes that a patch does not touch stay
unchanged. As on the real server, a strategic merge works on a generic copy (Go's numbers, sorted keys).
"""

import json
import re

import msgspec

from dradriver.cluster.apiserver.formats import gojson
from dradriver.cluster.apiserver.formats.values import JsonValue, Object, copy, encode, is_too_deep
from dradriver.cluster.apiserver.schema.decode import parse_at
from dradriver.cluster.apiserver.schema.types import Field, SchemaType, struct
from dradriver.cluster.apiserver.status import StatusError, bad_request, too_large

_DELETE_ITEMS = "$deleteFromPrimitiveList/"
_DIGITS = re.compile("[0-9]{1,9}")
_MOST_OPERATIONS = 10_000
_LARGEST_COPIES = 3 * 1024 * 1024
"""The maximum number of bytes of JSON that the `copy` operations of a patch may add.

Thirty copies of an object into itself would otherwise exceed any memory. Both limits are kube-apiserver's.
"""
_DIRECTIVES = ("$patch", "$retainKeys", "$setElementOrder/", _DELETE_ITEMS)


def merge_patch(target: JsonValue, patch: JsonValue) -> JsonValue:
    """Return the target after a JSON merge patch. Neither argument is changed."""
    if isinstance(patch, msgspec.Raw) and target is not None:
        return _merge_raw(target, patch)
    if not isinstance(patch, dict):
        return _settled(patch)
    target = _thaw(target)
    result: Object = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def _settled(value: JsonValue) -> JsonValue:
    """Return a value from a patch without nulls, with its raw bytes written anew."""
    if isinstance(value, msgspec.Raw):
        return msgspec.Raw(gojson.settled(bytes(value)))
    if isinstance(value, dict):
        return {key: _settled(item) for key, item in value.items() if item is not None}
    return [_settled(item) for item in value] if isinstance(value, list) else value


def _merge_raw(target: JsonValue, patch: msgspec.Raw) -> JsonValue:
    merged = merge_patch(_thaw(target), json.loads(bytes(patch)))
    # A patch that changes nothing keeps the stored bytes.
    return target if merged == _thaw(target) else merged


def _thaw(value: JsonValue) -> JsonValue:
    return json.loads(bytes(value)) if isinstance(value, msgspec.Raw) else value


def json_patch(target: Object, operations: JsonValue) -> JsonValue:
    """Return the target after a JSON patch.

    Args:
        target: the object.
        operations: the patch.

    Raises:
        StatusError: 400 for a malformed patch, 413 for one of too many operations, 422 for an operation
            that can't be carried out.
    """
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > _MOST_OPERATIONS:
        most = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        raise too_large(most)
    patching = _Patching(copy(target))
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("error decoding patch: each operation needs an op and a path")
        try:
            patching.operate(operation)
        except (KeyError, IndexError, ValueError, TypeError, RecursionError) as error:
            why = "exceeded max depth" if isinstance(error, RecursionError) else str(error)
            raise _rejected(f"{operation.get('op')} {operation['path']}: {why}") from error
    if is_too_deep(patching.root):
        raise _rejected("exceeded max depth")
    return patching.root


def _rejected(why: str) -> StatusError:
    message = f"the server rejected our request due to an error in our request: {why}"
    return StatusError(422, "Invalid", message)


def typed(name: str | None, operations: JsonValue, body: bytes) -> JsonValue:
    """Return the operations of a JSON patch with typed values: raw fields keep their bytes.

    Args:
        name: the struct of the patched object, None for one without a schema.
        operations: the patch, decoded.
        body: the patch as it was sent.
    """
    if (
        name is None
        or not isinstance(operations, list)
        or not all(isinstance(each, dict) for each in operations)
    ):
        return operations
    sent = msgspec.json.decode(body, type=list[dict[str, msgspec.Raw]])
    return [
        {**each, "value": parse_at(raw["value"], name, str(each.get("path", "")).split("/")[1:])}
        if "value" in each else each
        for each, raw in zip(operations, sent, strict=True)
    ]  # fmt: skip


class _Patching:
    """An object between two operations of a patch.

    Attributes:
        root: the current object.
    """

    def __init__(self, root: JsonValue) -> None:
        self.root = root
        self._copied = 0

    def operate(self, operation: Object) -> None:
        """Carry out one operation."""
        op, path, root = operation.get("op"), _pointer(operation["path"]), self.root
        if op == "test":
            if not _equal(_get(root, path), operation.get("value")):
                raise ValueError("testing value failed")
        elif op == "copy":
            self.root = _add(root, path, self._copy(_get(root, _pointer(operation["from"]))))
        elif op == "move":
            source = _pointer(operation["from"])
            if path[: len(source)] == source and path != source:
                raise ValueError("unable to move a value into itself")
            value = _get(root, source)
            self.root = _add(_remove(root, source), path, value)
        elif op == "add":
            self.root = _add(root, path, operation["value"])
        elif op == "replace":
            _get(root, path)
            self.root = _add(_remove(root, path) if path else root, path, operation["value"])
        elif op == "remove":
            self.root = _remove(root, path)
        else:
            raise ValueError(f"unexpected kind: {op}")

    def _copy(self, value: JsonValue) -> JsonValue:
        self._copied += len(encode(value))
        if self._copied > _LARGEST_COPIES:
            raise ValueError(
                f"Unable to complete the copy, the accumulated size increase of copy is {self._copied}, "
                f"exceeding the limit {_LARGEST_COPIES}"
            )
        return copy(value)


def _equal(present: JsonValue, wanted: JsonValue) -> bool:
    """Return whether two values are equal. Stops at the first difference, so a large value costs little."""
    present, wanted = _thaw(present), _thaw(wanted)
    if isinstance(present, dict) and isinstance(wanted, dict):
        return present.keys() == wanted.keys() and all(_equal(present[key], wanted[key]) for key in wanted)
    if isinstance(present, list) and isinstance(wanted, list):
        return len(present) == len(wanted) and all(map(_equal, present, wanted))
    return bool(present == wanted)


def _pointer(text: JsonValue) -> list[str]:
    if not isinstance(text, str):
        raise TypeError("a JSON pointer is a string")
    if text and not text.startswith("/"):
        raise ValueError("a JSON pointer starts with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _step(node: JsonValue, part: str) -> JsonValue:
    if isinstance(node, list):
        return node[_index(part, len(node) - 1)]
    if not isinstance(node, dict):
        raise TypeError(f"{part!r}: what is there is neither an object nor a list")
    return node[part]


def _index(part: str, last: int) -> int:
    if not _DIGITS.fullmatch(part) or not int(part) <= last:
        raise IndexError("index out of range")
    return int(part)


def _get(node: JsonValue, path: list[str]) -> JsonValue:
    for part in path:
        node = _step(_thaw(node), part)
    return node


def _parent(root: JsonValue, path: list[str]) -> JsonValue:
    node = root
    for part in path[:-1]:
        child = _thaw(_step(node, part))
        node[int(part) if isinstance(node, list) else part] = child
        node = child
    return node


def _add(root: JsonValue, path: list[str], value: JsonValue) -> JsonValue:
    if not path:
        return value
    node, last = _parent(root, path), path[-1]
    if isinstance(node, list):
        node.insert(len(node) if last == "-" else _index(last, len(node)), value)
    else:
        node[last] = value
    return root


def _remove(root: JsonValue, path: list[str]) -> JsonValue:
    if not path:
        raise ValueError("unable to remove the whole object")
    node, last = _parent(root, path), path[-1]
    if isinstance(node, list):
        del node[_index(last, len(node) - 1)]
    else:
        del node[last]
    return root


def strategic_merge(name: str, target: Object, patch: Object) -> Object:
    """Return the target after a strategic merge patch.

    Args:
        name: the object's struct, which knows the merge keys.
        target: the object, thawed.
        patch: the patch, plain JSON.
    """
    merged = _strategic(SchemaType("struct", struct=name), target, patch)
    return merged if isinstance(merged, dict) else {}


def _strategic(kind: SchemaType | None, target: Object, patch: Object) -> Object | None:
    directive = patch.get("$patch")
    if directive == "delete":
        return None
    result = {} if directive == "replace" else dict(target)
    fields = struct(kind.struct).fields if kind is not None and kind.kind == "struct" else {}
    element = Field(kind.element, omitempty=False) if kind is not None and kind.element is not None else None
    if "$retainKeys" in patch:
        kept = set(_listed(patch, "$retainKeys"))
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        if key.startswith(_DELETE_ITEMS):
            name, gone = key.removeprefix(_DELETE_ITEMS), set(map(_identity, _listed(patch, key)))
            present = result.get(name)
            if isinstance(present, list):
                result[name] = [item for item in present if _identity(item) not in gone]
        elif not key.startswith(_DIRECTIVES):
            _strategic_member(fields.get(key, element), result, key, value)
    return result


def _strategic_member(known: Field | None, result: Object, key: str, value: JsonValue) -> None:
    present = result.get(key)
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        merged = _strategic(known.type if known else None, present if isinstance(present, dict) else {}, value)
        if merged is None:
            result.pop(key, None)
        else:
            result[key] = merged
    elif isinstance(value, list) and known is not None and known.merge_key is not None:
        result[key] = _strategic_list(known, present if isinstance(present, list) else [], value)
    else:
        result[key] = _settled(value)


def _strategic_list(known: Field, present: list[JsonValue], patch: list[JsonValue]) -> list[JsonValue]:
    if not known.merge_key:
        known_items = set(map(_identity, present))
        return [*present, *(item for item in patch if _identity(item) not in known_items)]
    merge_key = known.merge_key
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if isinstance(item, dict) and "$patch" not in item]
    merged = {_identity(each.get(merge_key)): each for each in present}
    for item in patch:
        if not isinstance(item, dict) or merge_key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {merge_key}")
        name = _identity(item[merge_key])
        if item.get("$patch") == "delete":
            merged.pop(name, None)
        else:
            merged[name] = _strategic(known.type.element, merged.get(name, {}), item) or {}
    return _in_order(merge_key, list(merged.values()), present, patch)


def _listed(patch: Object, directive: str) -> list[JsonValue]:
    listed = patch[directive]
    if not isinstance(listed, list):
        raise bad_request(f"invalid patch format: {directive} must be a list")
    return listed


def _identity(value: JsonValue) -> str:
    """Return a key that distinguishes the values of a list, for sets."""
    return json.dumps(value, sort_keys=True)


def _in_order(
    key: str, merged: list[JsonValue], present: list[JsonValue], patch: list[JsonValue]
) -> list[JsonValue]:
    """Return the patch's items in its order, placed among the others by their old positions.

    New items come first.
    """
    was = {str(item.get(key)): position for position, item in enumerate(present)}
    wanted = [str(item[key]) for item in patch]
    found = {str(item.get(key)): item for item in merged}
    ours = [found[name] for name in dict.fromkeys(wanted) if name in found]
    patched = set(wanted)
    others = [item for item in merged if str(item.get(key)) not in patched]
    result: list[JsonValue] = []
    mine, rest = 0, 0
    while mine < len(ours) and rest < len(others):
        left, right = was.get(str(ours[mine].get(key)), -1), was[str(others[rest].get(key))]
        if left < right:
            result.append(ours[mine])
            mine += 1
        else:
            result.append(others[rest])
            rest += 1
    return [*result, *ours[mine:], *others[rest:]]
