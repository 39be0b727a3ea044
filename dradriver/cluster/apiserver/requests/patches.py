"""JSON patch (RFC 6902), JSON merge patch (RFC 7386) and Kubernetes' strategic merge patch, as pure functions.

JSON patch and merge patch change the object in the form in which clients get it. If a patch does not change raw
bytes, they stay as they are. As on the real server, a strategic merge patch changes a generic copy (Go's
numbers, sorted keys).
"""

import json
import re

import msgspec

from dradriver.cluster.apiserver.formats import gojson
from dradriver.cluster.apiserver.formats.values import JsonValue, Object, encode, is_too_deep
from dradriver.cluster.apiserver.schema.decode import parse_at
from dradriver.cluster.apiserver.schema.types import Field, SchemaType, get_fields
from dradriver.cluster.apiserver.status import StatusError, bad_request, too_large

_DELETE_ITEMS = "$deleteFromPrimitiveList/"
_DIGITS = re.compile("[0-9]{1,9}")
_MAX_OPERATIONS = 10_000
_MAX_COPIED_BYTES = 3 * 1024 * 1024
"""The maximum number of bytes of JSON that the `copy` operations of a patch may add.

Without this limit, thirty copies of an object into itself would exceed any memory. kube-apiserver has the same
limits on operations and on copied bytes.
"""
_DIRECTIVES = ("$patch", "$retainKeys", "$setElementOrder/", _DELETE_ITEMS)


def apply_merge_patch(target: JsonValue, patch: JsonValue) -> JsonValue:
    """Return the target after a JSON merge patch. Neither argument is changed."""
    if isinstance(patch, msgspec.Raw) and target is not None:
        return _merge_raw(target, patch)
    if not isinstance(patch, dict):
        return _normalize(patch)
    target = _thaw(target)
    result: Object = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_merge_patch(result.get(key), value)
    return result


def _normalize(value: JsonValue) -> JsonValue:
    """Return a copy of a patch's value, without nulls and with normalized raw bytes."""
    if isinstance(value, msgspec.Raw):
        return msgspec.Raw(gojson.normalize(bytes(value)))
    if isinstance(value, dict):
        return {key: _normalize(item) for key, item in value.items() if item is not None}
    return [_normalize(item) for item in value] if isinstance(value, list) else value


def _merge_raw(target: JsonValue, patch: msgspec.Raw) -> JsonValue:
    merged = apply_merge_patch(_thaw(target), json.loads(bytes(patch)))
    # If a patch changes nothing, the stored bytes are kept.
    return target if merged == _thaw(target) else merged


def _thaw(value: JsonValue) -> JsonValue:
    return json.loads(bytes(value)) if isinstance(value, msgspec.Raw) else value


def apply_json_patch(target: Object, operations: JsonValue) -> JsonValue:
    """Return the target after a JSON patch.

    Args:
        target: the object.
        operations: the patch.

    Raises:
        StatusError: 400 if the patch is malformed; 413 if it has too many operations; 422 if an operation can't
            be executed.
    """
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > _MAX_OPERATIONS:
        raise too_large(
            f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got {len(operations)}"
        )
    patching = _JsonPatch(target)
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("error decoding patch: each operation must have op and path")
        try:
            patching.operate(operation)
        except (KeyError, IndexError, ValueError, TypeError, RecursionError) as error:
            reason = "exceeded max depth" if isinstance(error, RecursionError) else str(error)
            raise _reject(f"{operation.get('op')} {operation['path']}: {reason}") from error
    if is_too_deep(patching.root):
        raise _reject("exceeded max depth")
    return patching.root


def _reject(reason: str) -> StatusError:
    message = f"the server rejected our request due to an error in our request: {reason}"
    return StatusError(422, "Invalid", message)


def parse_values(name: str | None, operations: JsonValue, body: bytes) -> JsonValue:
    """Return the operations of a JSON patch with typed values: raw fields keep their bytes.

    Args:
        name: name of the patched object's struct; None for an object without a schema.
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


class _JsonPatch:
    """The object that a JSON patch changes, one operation after another.

    Lists and maps on the path of an operation are copied, so the original object stays as it is.

    Attributes:
        root: the object after the operations so far.
    """

    def __init__(self, root: JsonValue) -> None:
        self.root = root
        self._copied = 0

    def operate(self, operation: Object) -> None:
        """Execute one operation of the patch on `root`."""
        op, path, root = operation.get("op"), _parse_pointer(operation["path"]), self.root
        if op == "test":
            if not _are_equal(_get(root, path), operation.get("value")):
                raise ValueError("testing value failed")
        elif op == "copy":
            self.root = _add(root, path, self._copy(_get(root, _parse_pointer(operation["from"]))))
        elif op == "move":
            source = _parse_pointer(operation["from"])
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
        if self._copied > _MAX_COPIED_BYTES:
            raise ValueError(
                f"Unable to complete the copy, the accumulated size increase of copy is {self._copied}, "
                f"exceeding the limit {_MAX_COPIED_BYTES}"
            )
        return value


def _are_equal(present: JsonValue, wanted: JsonValue) -> bool:
    """Return whether two values are equal.

    Stops at the first difference, so that comparing large values is cheap.
    """
    present, wanted = _thaw(present), _thaw(wanted)
    if isinstance(present, dict) and isinstance(wanted, dict):
        return present.keys() == wanted.keys() and all(_are_equal(present[key], wanted[key]) for key in wanted)
    if isinstance(present, list) and isinstance(wanted, list):
        return len(present) == len(wanted) and all(map(_are_equal, present, wanted))
    return bool(present == wanted)


def _parse_pointer(text: JsonValue) -> list[str]:
    if not isinstance(text, str):
        raise TypeError("a JSON pointer must be a string")
    if text and not text.startswith("/"):
        raise ValueError("a JSON pointer must start with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _step(node: JsonValue, part: str) -> JsonValue:
    if isinstance(node, list):
        return node[_parse_index(part, len(node) - 1)]
    if not isinstance(node, dict):
        raise TypeError(f"{part!r}: the value is neither an object nor a list")
    return node[part]


def _parse_index(part: str, last: int) -> int:
    if not _DIGITS.fullmatch(part) or not int(part) <= last:
        raise IndexError("index out of range")
    return int(part)


def _get(node: JsonValue, path: list[str]) -> JsonValue:
    for part in path:
        node = _step(_thaw(node), part)
    return node


def _copy_parent(root: JsonValue, path: list[str]) -> tuple[JsonValue, JsonValue]:
    """Return a copy of the root, and the parent of a path in this copy. What is not on the path is shared."""
    root = node = _copy_container(root)
    for part in path[:-1]:
        child = _copy_container(_thaw(_step(node, part)))
        node[int(part) if isinstance(node, list) else part] = child
        node = child
    return root, node


def _copy_container(value: JsonValue) -> JsonValue:
    return value.copy() if isinstance(value, (dict, list)) else value


def _add(root: JsonValue, path: list[str], value: JsonValue) -> JsonValue:
    if not path:
        return value
    (root, node), last = _copy_parent(root, path), path[-1]
    if isinstance(node, list):
        node.insert(len(node) if last == "-" else _parse_index(last, len(node)), value)
    else:
        node[last] = value
    return root


def _remove(root: JsonValue, path: list[str]) -> JsonValue:
    if not path:
        raise ValueError("unable to remove the whole object")
    (root, node), last = _copy_parent(root, path), path[-1]
    if isinstance(node, list):
        del node[_parse_index(last, len(node) - 1)]
    else:
        del node[last]
    return root


def apply_strategic_merge(name: str, target: Object, patch: Object) -> Object:
    """Return the target after a strategic merge patch.

    Args:
        name: name of the object's struct, which defines the merge keys.
        target: the object, thawed.
        patch: the patch, plain JSON.
    """
    merged = _merge_strategic(SchemaType("struct", struct=name), target, patch)
    return merged if isinstance(merged, dict) else {}


def _merge_strategic(kind: SchemaType | None, target: Object, patch: Object) -> Object | None:
    directive = patch.get("$patch")
    if directive == "delete":
        return None
    result = {} if directive == "replace" else dict(target)
    fields = get_fields(kind.struct) if kind is not None and kind.kind == "struct" else {}
    element = Field(kind.element, omitempty=False) if kind is not None and kind.element is not None else None
    if "$retainKeys" in patch:
        kept = {each for each in _read_list(patch, "$retainKeys") if isinstance(each, str)}
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        if key.startswith(_DELETE_ITEMS):
            name, gone = key.removeprefix(_DELETE_ITEMS), set(map(_to_key, _read_list(patch, key)))
            present = result.get(name)
            if isinstance(present, list):
                result[name] = [item for item in present if _to_key(item) not in gone]
        elif not key.startswith(_DIRECTIVES):
            _merge_member(fields.get(key, element), result, key, value)
    return result


def _merge_member(known: Field | None, result: Object, key: str, value: JsonValue) -> None:
    present = result.get(key)
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        merged = _merge_strategic(
            known.type if known else None, present if isinstance(present, dict) else {}, value
        )
        if merged is None:
            result.pop(key, None)
        else:
            result[key] = merged
    elif isinstance(value, list) and known is not None and known.merge_key is not None:
        result[key] = _merge_list(known, present if isinstance(present, list) else [], value)
    else:
        result[key] = _normalize(value)


def _merge_list(known: Field, present: list[JsonValue], patch: list[JsonValue]) -> list[JsonValue]:
    if not known.merge_key:
        known_items = set(map(_to_key, present))
        return [*present, *(item for item in patch if _to_key(item) not in known_items)]
    merge_key = known.merge_key
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if isinstance(item, dict) and "$patch" not in item]
    merged = {_to_key(each.get(merge_key)): each for each in present}
    for item in patch:
        if not isinstance(item, dict) or merge_key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {merge_key}")
        name = _to_key(item[merge_key])
        if item.get("$patch") == "delete":
            merged.pop(name, None)
        else:
            merged[name] = _merge_strategic(known.type.element, merged.get(name, {}), item) or {}
    return _sort_items(merge_key, list(merged.values()), present, patch)


def _read_list(patch: Object, directive: str) -> list[JsonValue]:
    listed = patch[directive]
    if not isinstance(listed, list):
        raise bad_request(f"invalid patch format: {directive} must be a list")
    return listed


def _to_key(value: JsonValue) -> str:
    """Return a hashable key for a value of a list. Different values have different keys."""
    return json.dumps(value, sort_keys=True)


def _sort_items(
    key: str, merged: list[JsonValue], present: list[JsonValue], patch: list[JsonValue]
) -> list[JsonValue]:
    """Return the items of a merged list in the order that Kubernetes gives them.

    The items that the patch names keep the patch's order, and all other items keep their old order. The two
    sequences are merged by the items' old positions. A new item directly follows the patch's previous item, or
    comes first.
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
