"""`dradriver manifests`: the objects with which a user tries a driver.

- `command`: the command.
- `shipped`: the manifests that a driver's package contains.
- `generated`: manifests for a driver whose package contains none.
"""

from dradriver.cli.manifests.command import manifests
from dradriver.cli.manifests.shipped import manifest_folder, package_of

__all__ = ["manifest_folder", "manifests", "package_of"]
