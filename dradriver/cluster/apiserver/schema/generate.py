"""Write `kubernetes.json` from the Go types of a Kubernetes release.

Run `python -m dradriver.cluster.apiserver.schema.generate API_MODULE APIMACHINERY_MODULE >
kubernetes.json`. The arguments are the folders of the Go modules `k8s.io/api` and
`k8s.io/apimachinery`. A type becomes a map from JSON name to one string: the type (`*` pointer,
`[]` list, `{}` map, then a primitive or `package.Type`) and its marks (`o` omitempty, `inline`,
`list=TYPE` (also `atomic` on a struct or map), `keys=A,B`, `merge=KEY`, `#NUMBER` in protobuf,
`#OUTER.NUMBER` in an embedded message).
"""

import json
import re
import sys
from pathlib import Path

PACKAGES = {
    "core": "core/v1",
    "resource": "resource/v1",
    "coordination": "coordination/v1",
    "events": "events/v1",
    "authorization": "authorization/v1",
    "authentication": "authentication/v1",
    "policy": "policy/v1",
}
ROOTS = (
    "core.Namespace", "core.Node", "core.Pod", "core.Binding", "core.Event",
    "core.ServiceAccount", "core.ConfigMap",
    "core.Secret", "core.ResourceQuota", "events.Event", "coordination.Lease",
    "policy.PodDisruptionBudget",
    "resource.DeviceClass", "resource.ResourceClaim",
    "resource.ResourceClaimTemplate", "resource.ResourceSlice", "resource.DeviceTaintRule",
    "authorization.SelfSubjectAccessReview", "authentication.SelfSubjectReview", "authentication.TokenRequest",
    "meta.DeleteOptions", "meta.ObjectMeta", "meta.Condition",
)  # fmt: skip
PRIMITIVES = {
    "string": "string", "bool": "bool", "int32": "int32", "int64": "int64", "int": "int64", "float64": "float",
    "[]byte": "bytes", "byte": "byte", "meta.Time": "time", "meta.MicroTime": "microtime",
    "meta.FieldsV1": "any",
    "resource-quantity.Quantity": "quantity", "intstr.IntOrString": "intorstring",
    "runtime.RawExtension": "raw",
    "types.UID": "string", "types.NodeName": "string", "runtime.Object": "any", "meta.Duration": "string",
}  # fmt: skip
IMPORTS = {"metav1": "meta", "v1": "core", "corev1": "core"}
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
ALIAS = re.compile(r"^type (\w+) (string|\w+|map\[.*|\[\].*)$", re.MULTILINE)
FIELD = re.compile(r'^\s*(?:(\w+)\s+)?(\S+)\s+`json:"([^"]*)"([^`]*)`', re.MULTILINE)
MARK = re.compile(r"^\s*// \+(listType|listMapKey|structType|mapType)=(\S+)", re.MULTILINE)
ATOMIC_STRUCT = re.compile(r"^// \+structType=atomic\n(?://.*\n)*type (\w+) struct", re.MULTILINE)


class Generator:
    """Reads Go packages and resolves all types to which the root types refer."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.structs: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        for package, text in sources.items():
            self.structs |= {f"{package}.{name}": body for name, body in STRUCT.findall(text)}
            self.aliases |= {f"{package}.{name}": target for name, target in ALIAS.findall(text)}
        self.atomic = {
            f"{package}.{name}" for package, text in sources.items() for name in ATOMIC_STRUCT.findall(text)
        }
        self.types: dict[str, dict[str, str]] = {}

    def describe_type(self, package: str, go: str) -> str:
        """Return the type expression of one Go type, as seen from a package."""
        if go == "[]byte":
            return "bytes"
        for sign in ("*", "[]"):
            if go.startswith(sign):
                return sign + self.describe_type(package, go[len(sign) :])
        if go.startswith("map["):
            return "{}" + self.describe_type(package, go[go.index("]") + 1 :])
        return self.describe_named_type(package, go)

    def describe_named_type(self, package: str, go: str) -> str:
        """Return the type expression of a named Go type, and queue its struct."""
        if "." in go:
            left, right = go.split(".")
            left = IMPORTS.get(left, left)
            name = f"resource-quantity.{right}" if right == "Quantity" else f"{left}.{right}"
        else:
            name = go if go in PRIMITIVES else f"{package}.{go}"
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        if name in self.structs:
            self.add(name)
            return name
        return self.describe_type(name.split(".")[0], self.aliases[name])

    def add(self, name: str) -> None:
        """Describe one struct and all structs to which it refers."""
        if name in self.types:
            return
        fields: dict[str, str] = {}
        self.types[name] = fields
        body, end = self.structs[name], 0
        package = name.partition(".")[0]
        for match in FIELD.finditer(body):
            marks = MARK.findall(body[end : match.start(3)])
            end = match.end()
            json_name, *options = match.group(3).split(",")
            go = match.group(2)
            if not json_name and go.endswith("TypeMeta"):
                fields |= {"apiVersion": "string o", "kind": "string o"}
            elif not json_name:
                fields |= self.describe_embedded(package, go, match.group(4))
            elif json_name != "-":
                expression = self.describe_type(package, go)
                optional = ["o"] if "omitempty" in options else []
                atomic = ["list=atomic"] if expression.lstrip("*") in self.atomic else []
                found = self.marks(marks, match.group(4))
                if not any(mark.startswith("list=") for mark in found):
                    found += atomic
                fields[json_name] = " ".join([expression, *optional, *found])

    def describe_embedded(self, package: str, go: str, tag: str) -> dict[str, str]:
        """Return the fields of an embedded struct. In protobuf, these fields are in a separate message."""
        number = re.search(r'protobuf:"\w+,(\d+)', tag)
        prefix = f"#{number.group(1)}." if number else "#"
        fields = self.types[self.describe_named_type(package, go)]
        return {key: text.replace("#", prefix) for key, text in fields.items()}

    @staticmethod
    def marks(comments: list[tuple[str, str]], tag: str) -> list[str]:
        """Return the marks from a field's comments and struct tag."""
        number = re.search(r'protobuf:"\w+,(\d+)', tag)
        found = [f"#{number.group(1)}"] if number else []
        found += [f"list={value}" for mark, value in comments if mark != "listMapKey"]
        keys = [value for mark, value in comments if mark == "listMapKey"]
        if keys:
            found.append("keys=" + ",".join(keys))
        merge = re.search(r'patchMergeKey:"(\w+)"', tag)
        if merge and "merge" in tag:
            found.append(f"merge={merge.group(1)}")
        elif 'patchStrategy:"merge' in tag:
            found.append("merge=")
        if 'patchStrategy:"merge,retainKeys' in tag or 'patchStrategy:"retainKeys' in tag:
            found.append("retain")
        return found


def main() -> None:
    """Print the document."""
    api, machinery = Path(sys.argv[1]), Path(sys.argv[2])
    sources = {
        package: "\n".join(path.read_text() for path in sorted((api / folder).glob("*types.go")))
        for package, folder in PACKAGES.items()
    }
    sources["meta"] = (machinery / "pkg/apis/meta/v1/types.go").read_text()
    generator = Generator(sources)
    for root in ROOTS:
        generator.add(root)
    lines = (f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(generator.types.items()))
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
