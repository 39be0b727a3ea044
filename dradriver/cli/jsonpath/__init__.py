"""kubectl's JSONPath templates: `{.items[*].metadata.name}`, `{range .items[*]}...{end}`.

No Python library has this dialect: templates with text, `range` and `end`, filters such as `?(@.a=="b")`, and
Go's form of printed values.

Law of this package: text and values in, text out.

- `syntax`: parses a template into nodes.
- `evaluate`: finds the values of nodes, and prints them.

Source: k8s.io/client-go/util/jsonpath.
"""

from dradriver.cli.jsonpath.evaluate import find_values, render
from dradriver.cli.jsonpath.syntax import parse_template, relax_expression

__all__ = ["find_values", "parse_template", "relax_expression", "render"]
