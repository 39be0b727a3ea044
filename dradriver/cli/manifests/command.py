"""The command `dradriver manifests`."""

import click

from dradriver.cli.manifests.generated import generate_manifests
from dradriver.cli.manifests.shipped import package_of, read_manifests
from dradriver.driver import ControllerDriver
from dradriver.driver.driver_class import read_name
from dradriver.errors import NotFoundError
from dradriver.runner import load_any

__all__ = ["manifests"]


@click.command(short_help="Print the objects with which to try a driver.")
@click.argument("driver")
@click.option(
    "--controller",
    is_flag=True,
    help="Print the objects whose devices a controller allocates, not the scheduler.",
)
def manifests(driver: str, controller: bool) -> None:
    """Print a class, a claim template and pods with which to try DRIVER, as YAML for kubectl.

    DRIVER is an entry point of the group dradriver.drivers, or module:Class. The objects come from the folder
    manifests of the driver's package, from class.yaml and pod.yaml. If the package has no such files, the
    command prints a class with all devices of the driver, and a pod that gets one of them. Use it as:
    dradriver manifests loop | kubectl apply -f -

    With --controller, the objects come from controller-class.yaml and controller-pod.yaml.
    """
    kind = load_any(driver)
    if controller:
        if not (text := read_manifests(package_of(driver), "controller-")):
            raise NotFoundError(
                f"driver {driver}: its package has no folder manifests with controller-class.yaml and "
                "controller-pod.yaml"
            )
        click.echo(text, nl=False)
        return
    text = read_manifests(package_of(driver))
    if not text and issubclass(kind, ControllerDriver):
        raise NotFoundError(
            f"driver {driver}: its package has no folder manifests with class.yaml and pod.yaml, and "
            "the class of a controller depends on the controller's parameters"
        )
    click.echo(text or generate_manifests(read_name(kind)), nl=False)
