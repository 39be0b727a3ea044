"""kubectl's templates."""

import pytest

from dradriver.cli.jsonpath import find_values, parse_template, relax_expression, render
from dradriver.errors import UsageError
from tests.unit.cli.jsonpath.cases import POD, REJECTED, TABLES


@pytest.mark.parametrize(("document", "template", "output"), TABLES)
def test_a_template_prints_what_kubectl_prints(document: object, template: str, output: str) -> None:
    assert render(parse_template(template), document) == output


@pytest.mark.parametrize(("document", "template"), REJECTED)
def test_an_invalid_template_is_rejected(document: object, template: str) -> None:
    with pytest.raises(UsageError, match="jsonpath"):
        render(parse_template(template), document)


def test_the_values_of_a_path_keep_their_types() -> None:
    assert find_values(parse_template("{.spec.containers[*].ports[*].containerPort}"), POD) == [80, 443, 9090]


@pytest.mark.parametrize("template", [".metadata.name", "metadata.name"])
def test_a_template_without_braces_is_a_path(template: str) -> None:
    """Kubectl prints such a template itself, which is never wanted."""
    assert render(parse_template(relax_expression(template)), POD) == "train-0"
