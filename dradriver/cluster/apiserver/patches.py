"""JSON patch (RFC 6902), JSON merge patch (RFC 7386) and Kubernetes' strategic merge patch, as pure functions.

The first two work on the object as it was answered last, so that raw bytes which a patch does not
touch stay what they are; a strategic merge works on a generic copy (Go's numbers, sorted keys), as
on the real server.
"""

import json

import msgspec

from dradriver.cluster.apiserver import gojson
from dradriver.cluster.apiserver.schema.decode import parse_at, thaw
from dradriver.cluster.apiserver.schema.types import Field, Type, struct
from dradriver.cluster.apiserver.status import StatusError, bad_request
from dradriver.cluster.apiserver.values import JsonValue, Object, copy

_DELETE_ITEMS = "$deleteFromPrimitiveList/"
_DIRECTIVES = ("$patch", "$retainKeys", "$setElementOrder/", _DELETE_ITEMS)


def merge_patch(target: JsonValue, patch: JsonValue) -> JsonValue:
    """The target after a JSON merge patch; neither argument is changed."""
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
    """A value that a patch brings: without what is null, raw bytes written anew."""
    if isinstance(value, msgspec.Raw):
        return msgspec.Raw(gojson.settled(bytes(value)))
    if isinstance(value, dict):
        return {key: _settled(item) for key, item in value.items() if item is not None}
    return [_settled(item) for item in value] if isinstance(value, list) else value


def _merge_raw(target: JsonValue, patch: msgspec.Raw) -> JsonValue:
    merged = merge_patch(_thaw(target), json.loads(bytes(patch)))
    # A patch that changes nothing leaves the stored bytes alone.
    return target if merged == _thaw(target) else merged


def _thaw(value: JsonValue) -> JsonValue:
    return json.loads(bytes(value)) if isinstance(value, msgspec.Raw) else value


def json_patch(target: Object, operations: JsonValue) -> JsonValue:
    """The target after a JSON patch.

    Raises:
        StatusError: 400 for a malformed patch, 422 for an operation that can't be carried out.
    """
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    result: JsonValue = copy(target)
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("error decoding patch: each operation needs an op and a path")
        try:
            result = _operate(result, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            message = (
                "the server rejected our request due to an error in our request: "
                f"{operation.get('op')} {operation['path']}: {error}"
            )
            raise StatusError(422, "Invalid", message) from error
    return result


def typed(name: str | None, operations: JsonValue, body: bytes) -> JsonValue:
    """The operations of a JSON patch with values as their fields keep them: raw fields keep their bytes.

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


def _operate(root: JsonValue, operation: Object) -> JsonValue:
    op, path = operation.get("op"), _pointer(operation["path"])
    if op == "test":
        if thaw(_get(root, path)) != thaw(operation.get("value")):
            raise ValueError("testing value failed")
        return root
    if op in {"move", "copy"}:
        source = _pointer(operation["from"])
        value = copy(_get(root, source))
        root = _remove(root, source) if op == "move" else root
        return _add(root, path, value)
    if op == "add":
        return _add(root, path, operation["value"])
    if op == "replace":
        _get(root, path)
        return _add(_remove(root, path) if path else root, path, operation["value"])
    if op == "remove":
        return _remove(root, path)
    raise ValueError(f"unexpected kind: {op}")


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError("a JSON pointer starts with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _step(node: JsonValue, part: str) -> JsonValue:
    if isinstance(node, list):
        return node[_index(part, len(node) - 1)]
    return node[part]


def _index(part: str, last: int) -> int:
    index = int(part)
    if not 0 <= index <= last:
        raise IndexError("index out of range")
    return index


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
    node, last = _parent(root, path), path[-1]
    if isinstance(node, list):
        del node[_index(last, len(node) - 1)]
    else:
        del node[last]
    return root


def strategic_merge(name: str, target: Object, patch: Object) -> Object:
    """The target after a strategic merge patch.

    Args:
        name: the object's struct, which knows the merge keys.
        target: the object, thawed.
        patch: the patch, plain JSON.
    """
    merged = _strategic(Type("struct", struct=name), target, patch)
    return merged if isinstance(merged, dict) else {}


def _strategic(kind: Type | None, target: Object, patch: Object) -> Object | None:
    directive = patch.get("$patch")
    if directive == "delete":
        return None
    result = {} if directive == "replace" else dict(target)
    fields = struct(kind.struct).fields if kind is not None and kind.kind == "struct" else {}
    element = Field(kind.element, omitempty=False) if kind is not None and kind.element is not None else None
    if "$retainKeys" in patch:
        result = {key: value for key, value in result.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        if key.startswith(_DELETE_ITEMS):
            name = key.removeprefix(_DELETE_ITEMS)
            result[name] = [item for item in result.get(name) or () if item not in value]
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
        return [*present, *(item for item in patch if item not in present)]
    merge_key = known.merge_key
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if isinstance(item, dict) and "$patch" not in item]
    result = list(present)
    for item in patch:
        if not isinstance(item, dict) or merge_key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {merge_key}")
        position = next((i for i, each in enumerate(result) if each.get(merge_key) == item[merge_key]), None)
        if item.get("$patch") == "delete":
            if position is not None:
                del result[position]
        elif position is None:
            result.append(_strategic(known.type.element, {}, item))
        else:
            result[position] = _strategic(known.type.element, result[position], item)
    return _in_order(merge_key, result, present, patch)


def _in_order(
    key: str, merged: list[JsonValue], present: list[JsonValue], patch: list[JsonValue]
) -> list[JsonValue]:
    """The patch's items in its order, put between the others by where they were; new ones come first."""
    was = {str(item.get(key)): position for position, item in enumerate(present)}
    wanted = [str(item[key]) for item in patch]
    found = {str(item.get(key)): item for item in merged}
    ours = [found[name] for name in dict.fromkeys(wanted) if name in found]
    others = [item for item in merged if str(item.get(key)) not in wanted]
    result: list[JsonValue] = []
    while ours and others:
        left, right = was.get(str(ours[0].get(key)), -1), was[str(others[0].get(key))]
        result.append(ours.pop(0) if left < right else others.pop(0))
    return [*result, *ours, *others]
