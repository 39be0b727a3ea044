"""Each public name is on exactly one page of the API."""

import re

import dradriver
import dradriver.testing
from website.api_pages import list_api_pages


def test_each_public_name_is_on_one_page() -> None:
    named = re.findall(r"^::: (\S+)$", "\n".join(list_api_pages().values()), re.MULTILINE)
    public = [f"dradriver.{each}" for each in dradriver.__all__]
    public += [f"dradriver.testing.{each}" for each in dradriver.testing.__all__]
    assert sorted(named) == sorted(public)
