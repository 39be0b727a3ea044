"""Writes manifests for a driver whose package contains none."""

import re
from typing import Final

from dradriver.model import names

__all__ = ["generate_manifests"]

_MANIFESTS: Final = """\
# A DeviceClass that selects all devices of the driver.
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: @driver@
spec:
  selectors:
    - cel:
        expression: device.driver == "@driver@"
---
# Each pod that uses the template gets a claim of its own for one device.
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: one-@name@
  namespace: default
spec:
  spec:
    devices:
      requests:
        - name: device
          exactly:
            deviceClassName: @driver@
---
apiVersion: v1
kind: Pod
metadata:
  name: @name@-1
  namespace: default
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
    - name: show
      image: busybox:1.36
      command: ["sh", "-c", "env; exec sleep 3600"]
      resources:
        claims:
          - name: device
  resourceClaims:
    - name: device
      resourceClaimTemplateName: one-@name@
"""


def generate_manifests(driver: str) -> str:
    """Return a class, a claim template and a pod with one device of a driver, as YAML.

    Args:
        driver: name of the driver in the cluster, such as `led.example.com`.
    """
    label = re.sub(r"[^a-z0-9]+", "-", driver.partition(".")[0].lower()).strip("-")
    name = "device" if names.dns_label(label) else label
    return _MANIFESTS.replace("@driver@", driver).replace("@name@", name)
