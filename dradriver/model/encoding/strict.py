"""Finds the fields of a JSON object that a type does not have.

Decoding a value ignores unknown fields, because a newer server may send additional fields. Input of users must
also be checked with `unknown_fields`, so that a misspelled field is an error.
"""

from collections.abc import Iterator, Mapping
from functools import cache

import msgspec

__all__ = ["unknown_fields"]


def unknown_fields(wanted: type, data: object) -> list[str]:
    """Return the paths of the fields in `data` (decoded JSON) that the msgspec Struct `wanted` lacks."""
    return list(_walk(_info(wanted), data, ""))


@cache
def _info(wanted: type) -> msgspec.inspect.Type:
    return msgspec.inspect.type_info(wanted)


def _walk(info: msgspec.inspect.Type, data: object, path: str) -> Iterator[str]:
    match info:
        case msgspec.inspect.StructType() if isinstance(data, Mapping):
            yield from _walk_struct(info, data, path)
        case msgspec.inspect.DictType() if isinstance(data, Mapping):
            for key, value in data.items():
                yield from _walk(info.value_type, value, f"{path}[{key}]")
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType() if isinstance(data, list):
            for index, item in enumerate(data):
                yield from _walk(info.item_type, item, f"{path}[{index}]")
        case msgspec.inspect.UnionType():
            for option in info.types:
                if not _excluded_by_tag(option, data):
                    yield from _walk(option, data, path)
        case _:
            return


def _walk_struct(info: msgspec.inspect.StructType, data: Mapping[str, object], path: str) -> Iterator[str]:
    fields = {field.encode_name: field.type for field in info.fields}
    for key, value in data.items():
        where = f"{path}.{key}" if path else str(key)
        if key in fields:
            yield from _walk(fields[key], value, where)
        elif key != info.tag_field:
            yield where


def _excluded_by_tag(option: msgspec.inspect.Type, data: object) -> bool:
    """Return whether an option of a union is a struct whose tag differs from the tag in the data."""
    if not (isinstance(option, msgspec.inspect.StructType) and isinstance(data, Mapping)):
        return False
    return option.tag_field is not None and bool(data.get(option.tag_field) != option.tag)
