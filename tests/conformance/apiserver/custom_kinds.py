"""The behavior of every API server here for custom kinds with a structural schema: a part of `suite`.

A case in a table is the content of an object, and what the server answers.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance.apiserver.suite import APPLY, MERGE, Answer, Api, Json

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEXT: Json = {"type": "string"}
ENTRY: Json = {
    "type": "object",
    "required": ["name", "controllerName"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "controllerName": TEXT,
        "nodes": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "atomic", "items": TEXT},
    },
}
SCHEMA: Json = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
                "choice": {"type": "string", "enum": ["A", "B"]},
                "number": {"type": "integer", "minimum": 1, "maximum": 9},
                "flag": {"type": "boolean"},
                "default": {"type": "string", "default": "d"},
                "nullable": {"type": "string", "nullable": True},
                "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "either": {"x-kubernetes-int-or-string": True},
                "map": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"v": {"type": "integer"}}},
                },
                "atomic": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {"a": TEXT, "b": TEXT},
                },
                "set": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 3,
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string", "maxLength": 5},
                },
                "fixed": {
                    "type": "object",
                    "properties": {"a": TEXT},
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is immutable"}],
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "entries": {
                    "type": "array",
                    "maxItems": 3,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": ENTRY,
                }
            },
        },
    },
}

WRONG_SPECS: dict[str, tuple[Json, str, str]] = {
    "required": ({}, "spec", "Required value"),
    "type of an object": ({"spec": []}, "spec", 'spec in body must be of type object: "array"'),
    "type of a text": ({"spec": {"text": 1}}, "spec.text", 'must be of type string: "integer"'),
    "type of a number": ({"spec": {"number": "x"}}, "spec.number", 'must be of type integer: "string"'),
    "type of a flag": ({"spec": {"flag": "true"}}, "spec.flag", 'must be of type boolean: "string"'),
    "type of a list": ({"spec": {"set": {}}}, "spec.set", 'must be of type array: "object"'),
    "type of an item": ({"spec": {"set": [1]}}, "spec.set[0]", 'must be of type string: "integer"'),
    "type of an entry": ({"spec": {"map": {"a": {"v": "1"}}}}, "spec.map.a.v", "must be of type integer"),
    "int or string": ({"spec": {"either": True}}, "spec.either", 'must be of type integer,string: "boolean"'),
    "null item": ({"spec": {"set": [None]}}, "spec.set[0]", 'must be of type string: "null"'),
    "maxLength": ({"spec": {"text": "abcdef"}}, "spec.text", "Too long: may not be more than 5 bytes"),
    "minLength": ({"spec": {"text": "a"}}, "spec.text", "spec.text in body should be at least 2 chars long"),
    "pattern": ({"spec": {"text": "AB"}}, "spec.text", "spec.text in body should match '^[a-z]+$'"),
    "enum": (
        {"spec": {"choice": "C"}},
        "spec.choice",
        'Unsupported value: "C": supported values: "A", "B"',
    ),
    "minimum": ({"spec": {"number": 0}}, "spec.number", "should be greater than or equal to 1"),
    "maximum": ({"spec": {"number": 10}}, "spec.number", "should be less than or equal to 9"),
    "maxItems": ({"spec": {"set": list("abcd")}}, "spec.set", "Too many: 4: must have at most 3 items"),
    "minItems": ({"spec": {"set": []}}, "spec.set", "spec.set in body should have at least 1 items"),
    "set": ({"spec": {"set": ["a", "b", "a"]}}, "spec.set[2]", 'Duplicate value: "a"'),
}
KEPT_SPECS: dict[str, tuple[Json, Json]] = {
    "default": ({}, {"default": "d"}),
    "null": ({"text": None, "default": None, "nullable": None}, {"default": "d", "nullable": None}),
    "whole number": ({"number": 1.0}, {"default": "d", "number": 1}),
    "anything": ({"anything": {"a": [1, {"b": None}]}}, {"default": "d", "anything": {"a": [1, {"b": None}]}}),
    "either": ({"either": "5%"}, {"default": "d", "either": "5%"}),
    "unknown in a map": ({"map": {"a": {"v": 1, "u": 2}}}, {"default": "d", "map": {"a": {"v": 1}}}),
}
WRONG_SCHEMAS: dict[str, tuple[Json, str]] = {
    "no type": ({}, "type: Required value: must not be empty at the root"),
    "unknown type": ({"a": {"type": "text"}}, 'properties[a].type: Unsupported value: "text"'),
    "field without a type": ({"a": {}}, "properties[a].type: Required value: must not be empty for specified"),
    "list without items": ({"a": {"type": "array"}}, "properties[a].items: Required value: must be specified"),
    "map without keys": (
        {"a": {"type": "array", "x-kubernetes-list-type": "map", "items": ENTRY}},
        "x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
    ),
    "optional key": (
        {
            "a": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["nodes"],
                "items": {"type": "object", "properties": {"nodes": TEXT}},
            }
        },
        "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
    ),
    "unknown list type": (
        {"a": {"type": "array", "x-kubernetes-list-type": "bag", "items": TEXT}},
        'x-kubernetes-list-type: Unsupported value: "bag"',
    ),
    "set of objects": (
        {"a": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}},
        "must be atomic as item of a list with x-kubernetes-list-type=set",
    ),
    "wrong pattern": (
        {"a": {"type": "string", "pattern": "("}},
        'properties[a].pattern: Invalid value: "(": must be a valid regular expression, but isn\'t',
    ),
}


def define(group: str, schema: Json) -> Json:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [
            {"name": "Set", "type": "string", "jsonPath": ".spec.set"},
            {"name": "Round", "type": "integer", "jsonPath": ".metadata.generation"},
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing", "singular": "thing"},
            "versions": [version],
        },
    }


@dataclass
class Things:
    """A custom kind, and requests for its objects."""

    api: Api
    group: str

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/v1/things"

    def body(self, name: str = "a", **content: Any) -> Json:
        return {"apiVersion": f"{self.group}/v1", "kind": "Thing", "metadata": {"name": name}, **content}

    async def create(self, content: Json, **params: str) -> Answer:
        return await self.api.call("POST", self.path, self.body(**content), params=params)

    async def patch(self, content: Json, sub: str = "", **params: str) -> Answer:
        path = f"{self.path}/a{sub}"
        return await self.api.call("PATCH", path, content, content_type=MERGE, params=params)

    async def apply(self, manager: str, content: Json, sub: str = "", **params: str) -> Answer:
        params = {"fieldManager": manager, **params}
        path, body = f"{self.path}/a{sub}", self.body(**content)
        return await self.api.call("PATCH", path, body, content_type=APPLY, params=params)

    async def answer(self, manager: str, *entries: Json, **params: str) -> Answer:
        """Apply entries of the status, as a controller does."""
        return await self.apply(manager, {"status": {"entries": list(entries)}}, "/status", **params)


def entry(name: str, who: str, *nodes: str) -> Json:
    return {"name": name, "controllerName": who, "nodes": list(nodes)}


def causes(answer: Answer) -> dict[str, str]:
    assert answer.status == 422, answer.raw
    return {each["field"]: each["message"] for each in answer.json["details"]["causes"]}


def owned(answer: Answer, manager: str, subresource: str = "") -> Json:
    """Return the fields that a manager owns."""
    return next(
        dict(each["fieldsV1"])
        for each in answer.json["metadata"]["managedFields"]
        if (each["manager"], each.get("subresource", "")) == (manager, subresource)
    )


async def serve(api: Api, group: str) -> Things:
    """Define the kind in a group if it is not there, and wait until requests reach it."""
    things = Things(api, group)
    answer = await api.call("POST", DEFINITIONS, define(group, SCHEMA))
    assert answer.status in {201, 409}, answer.raw
    async with asyncio.timeout(30):
        while (await api.call("GET", things.path)).status != 200:
            await asyncio.sleep(0.05)
        # The types for server-side apply come later than the path.
        while (await things.apply("probe", {"spec": {"unknown": 1}}, dryRun="All")).status != 500:
            await asyncio.sleep(0.05)
    return things


class CustomKindsSuite:
    """The suite; see the module."""

    @pytest.fixture
    async def things(self, api: Api) -> AsyncIterator[Things]:
        """Yield a kind that all tests of a server share, because a new one is served only after seconds."""
        things = await serve(api, "custom-kinds.example.com")
        yield things
        await api.call("DELETE", f"{things.path}/a")

    @pytest.mark.parametrize("case", WRONG_SPECS)
    async def test_a_violation_of_the_schema_is_named(self, things: Things, case: str) -> None:
        content, field, message = WRONG_SPECS[case]
        found = causes(await things.create(content))
        assert message in found.pop(field)
        assert {key for key in found if key != "<nil>"} == set()

    @pytest.mark.parametrize("case", KEPT_SPECS)
    async def test_an_object_gets_defaults_and_loses_what_the_schema_does_not_have(
        self, things: Things, case: str
    ) -> None:
        sent, kept = KEPT_SPECS[case]
        answer = await things.create({"spec": sent})
        assert (answer.status, answer.json["spec"]) == (201, kept)

    async def test_unknown_fields_are_dropped_with_a_warning_or_rejected(self, things: Things) -> None:
        content = {"spec": {"u": 1, "map": {"a": {"w": 2}}}, "v": 3}
        paths = ("spec.map.a.w", "spec.u", "v")
        strict = await things.create(content, fieldValidation="Strict")
        assert (strict.status, strict.json["message"]) == (
            400,
            'Thing in version "v1" cannot be handled as a Thing: strict decoding error: '
            + ", ".join(f'unknown field "{path}"' for path in paths),
        )
        warned = await things.create(content)
        assert (warned.status, warned.json["spec"], "v" in warned.json) == (
            201,
            {"default": "d", "map": {"a": {}}},
            False,
        )
        assert warned.headers.getall("Warning") == [f'299 - "unknown field \\"{path}\\""' for path in paths]
        patched = await things.patch({"spec": {"u": 1}}, fieldValidation="Strict")
        assert patched.status == 422
        assert 'strict decoding error: unknown field "spec.u"' in patched.json["message"]

    async def test_a_patch_must_keep_the_schema(self, things: Things) -> None:
        await things.create({"spec": {"number": 1}})
        assert "must be of type integer" in causes(await things.patch({"spec": {"number": "x"}}))["spec.number"]
        assert (await things.patch({"spec": {"number": None}})).json["spec"] == {"default": "d"}

    async def test_a_replace_needs_the_resource_version(self, things: Things) -> None:
        await things.create({"spec": {}})
        answer = await things.api.call("PUT", f"{things.path}/a", things.body(spec={}))
        assert causes(answer) == {
            "metadata.resourceVersion": "Invalid value: 0: must be specified for an update"
        }

    async def test_an_immutable_field_cannot_change(self, things: Things) -> None:
        await things.create({"spec": {"fixed": {"a": "1"}}})
        assert causes(await things.patch({"spec": {"fixed": {"a": "2"}}})) == {
            "spec.fixed": "Invalid value: fixed is immutable"
        }
        assert (await things.patch({"spec": {"flag": True}})).status == 200

    async def test_a_write_of_the_status_checks_only_the_status(self, things: Things) -> None:
        await things.create({"spec": {}})
        listed = [
            {"name": "a"},
            {"name": "b", "controllerName": 1},
            {"name": "", "controllerName": "c"},
            entry("d", "c", "n1", "n2", "n3"),
        ]
        found = causes(await things.patch({"status": {"entries": listed}, "spec": []}, "/status"))
        found.pop("<nil>")
        assert found == {
            "status.entries[0].controllerName": "Required value",
            "status.entries[1].controllerName": (
                'Invalid value: "integer": entries[1].controllerName in body must be of type string: "integer"'
            ),
            "status.entries[2].name": (
                'Invalid value: "": entries[2].name in body should be at least 1 chars long'
            ),
            "status.entries[3].nodes": "Too many: 3: must have at most 2 items",
            "status.entries": "Too many: 4: must have at most 3 items",
        }

    async def test_items_of_a_keyed_list_have_different_keys(self, things: Things) -> None:
        await things.create({"spec": {}})
        listed = [entry("a", "x"), entry("b", "y"), entry("a", "z")]
        assert causes(await things.patch({"status": {"entries": listed}}, "/status")) == {
            "status.entries[2]": 'Duplicate value: {"name":"a"}'
        }

    async def test_what_a_write_does_not_change_need_not_fit_a_stricter_schema(self, api: Api) -> None:
        things = await serve(api, f"g{uuid.uuid4().hex[:8]}.example.com")
        await things.create({"spec": {"text": "abc"}})
        schema = {**SCHEMA, "properties": dict(SCHEMA["properties"])}
        spec = dict(SCHEMA["properties"]["spec"]["properties"])
        schema["properties"]["spec"] = {
            "type": "object",
            "properties": {**spec, "text": {**TEXT, "maxLength": 2}},
        }
        body = {"spec": define(things.group, schema)["spec"]}
        path = f"{DEFINITIONS}/things.{things.group}"
        assert (await things.api.call("PATCH", path, body, content_type=MERGE)).status == 200
        async with asyncio.timeout(30):
            while (await things.patch({"spec": {"text": "abcd"}}, dryRun="All")).status == 200:
                await asyncio.sleep(0.05)
        changed = await things.patch({"spec": {"flag": True}})
        assert (changed.status, changed.json["spec"]["text"]) == (200, "abc")
        await api.call("DELETE", path)

    # --- server-side apply

    async def test_each_controller_owns_its_items_of_a_keyed_list(self, things: Things) -> None:
        await things.create({"spec": {}})
        assert (await things.answer("one", entry("a", "one", "n1"))).status == 200
        both = await things.answer("two", entry("b", "two", "n1", "n2"))
        assert both.json["status"]["entries"] == [entry("a", "one", "n1"), entry("b", "two", "n1", "n2")]
        key = 'k:{"name":"b"}'
        assert owned(both, "two", "status") == {
            "f:status": {"f:entries": {key: {".": {}, "f:name": {}, "f:controllerName": {}, "f:nodes": {}}}}
        }
        changed = await things.answer("one", entry("a", "one", "n3"))
        assert changed.json["status"]["entries"][0] == entry("a", "one", "n3"), "an atomic list is replaced"
        gone = await things.answer("one")
        assert gone.json["status"]["entries"] == [entry("b", "two", "n1", "n2")]

    async def test_an_item_of_another_controller_is_a_conflict(self, things: Things) -> None:
        await things.create({"spec": {}})
        await things.answer("one", entry("a", "one", "n1"))
        refused = await things.answer("two", entry("a", "two"))
        assert (refused.status, refused.json["message"]) == (
            409,
            'Apply failed with 2 conflicts: conflicts with "one" with subresource "status":\n'
            '- .status.entries[name="a"].controllerName\n- .status.entries[name="a"].nodes',
        )
        taken = await things.answer("two", entry("a", "two"), force="true")
        assert taken.json["status"]["entries"] == [entry("a", "two")]

    async def test_members_of_a_set_are_owned_one_by_one(self, things: Things) -> None:
        await things.create({"spec": {"set": ["a", "b"]}})
        added = await things.apply("one", {"spec": {"set": ["c"]}})
        assert added.json["spec"]["set"] == ["a", "b", "c"]
        assert owned(added, "one") == {"f:spec": {"f:set": {'v:"c"': {}}}}
        assert (await things.apply("one", {"spec": {}})).json["spec"]["set"] == ["a", "b"]
        many = await things.apply("one", {"spec": {"set": ["c", "d"]}})
        assert "Too many: 4" in causes(many)["spec.set"]

    async def test_an_atomic_object_has_one_owner(self, things: Things) -> None:
        await things.create({"spec": {"atomic": {"a": "1"}}})
        assert (await things.apply("one", {"spec": {"atomic": {"b": "2"}}})).status == 409
        taken = await things.apply("one", {"spec": {"atomic": {"b": "2"}}}, force="true")
        assert taken.json["spec"]["atomic"] == {"b": "2"}
        assert owned(taken, "one") == {"f:spec": {"f:atomic": {}}}

    async def test_an_entry_of_a_map_disappears_with_its_only_owner(self, things: Things) -> None:
        await things.create({"spec": {"map": {"k": {"v": 1}}, "anything": {"q": {"r": 1}}}})
        mine = {"spec": {"map": {"mine": {"v": 2}}, "anything": {"q": {"s": 2}}}}
        applied = await things.apply("one", mine)
        assert owned(applied, "one") == {
            "f:spec": {
                "f:map": {"f:mine": {".": {}, "f:v": {}}},
                "f:anything": {"f:q": {".": {}, "f:s": {}}},
            }
        }
        spec = (await things.apply("one", {"spec": {}})).json["spec"]
        assert (spec["map"], spec["anything"]) == ({"k": {"v": 1}}, {"q": {"r": 1}})

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            ({"spec": {"u": 1}}, ".spec.u: field not declared in schema"),
            ({"spec": {"number": "x"}}, ".spec.number: expected numeric (int or float), got string"),
            ({"spec": {"set": "x"}}, ".spec.set: expected list, got "),
            ({"spec": "x"}, ".spec: expected map, got "),
            ({"spec": {"set": ["c", "c"]}}, '.spec.set: duplicate entries for key [="c"]'),
        ],
        ids=["unknown", "number", "list", "object", "twice"],
    )
    async def test_an_apply_must_have_the_form_of_the_schema(
        self, things: Things, content: Json, problem: str
    ) -> None:
        await things.create({"spec": {}})
        answer = await things.apply("one", content)
        words = f"failed to create typed patch object (/a; {things.group}/v1, Kind=Thing): {problem}"
        assert (answer.status, answer.json["message"][: len(words)]) == (500, words)

    async def test_an_applied_item_needs_its_key_once(self, things: Things) -> None:
        await things.create({"spec": {}})
        twice = await things.answer("one", entry("a", "x"), entry("a", "y"))
        assert '.status.entries: duplicate entries for key [name="a"]' in twice.json["message"]
        none = await things.answer("one", {"controllerName": "x"})
        assert 'element that omits all key fields ["name"]' in none.json["message"]

    # --- definitions

    @pytest.mark.parametrize("case", WRONG_SCHEMAS)
    async def test_a_schema_must_be_structural(self, api: Api, case: str) -> None:
        properties, expected = WRONG_SCHEMAS[case]
        schema = {"type": "object", "properties": properties} if properties else {}
        body = define(f"g{uuid.uuid4().hex[:8]}.example.com", schema)
        answer = await api.call("POST", DEFINITIONS, body, params={"dryRun": "All"})
        assert answer.status == 422, answer.raw
        assert "spec.validation.openAPIV3Schema." in answer.json["message"]
        assert expected in answer.json["message"]

    async def test_printer_columns_show_lists_and_the_generation(self, things: Things) -> None:
        await things.create({"spec": {"set": ["a", "b"]}})
        await things.patch({"spec": {"flag": True}})
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
        table = (await things.api.call("GET", things.path, accept=accept)).json
        assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Set", "Round"]
        assert [row["cells"] for row in table["rows"]] == [["a", '["a","b"]', 2]]
