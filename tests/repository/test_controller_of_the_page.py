"""The controller of docs/classic.md keeps the contract of controllers, with the test class of the page."""

from typing import Any, Final, cast

from dradriver import ControllerDriver
from dradriver.testing import ControllerContract
from tests.repository.test_blocks_of_the_pages import PYTHON, module

PAGE: Final = next(each for each in PYTHON if "class LicenseContract" in each.text)
NAMES: Final[dict[str, Any]] = {"__name__": "license_contract"}
exec(compile(module(PAGE), f"{PAGE.page}:{PAGE.line}", "exec"), NAMES)


_Shown: type[ControllerContract] = NAMES["LicenseContract"]


class TestLicenseContract(ControllerContract):
    """The contract of the page, with a server of its own for each test."""

    class_config = _Shown.class_config

    def make_driver(self) -> ControllerDriver:
        driver: Any = _Shown().make_driver()
        driver.server = self.__dict__.setdefault("server", NAMES["LicenseServer"]())
        return cast(ControllerDriver, driver)


def test_the_page_shows_the_contract() -> None:
    assert issubclass(_Shown, ControllerContract)
