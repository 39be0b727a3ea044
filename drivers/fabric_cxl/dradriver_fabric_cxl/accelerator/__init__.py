"""The accelerators of a node that a fabric attaches, found by their serial number.

Law of this package: it knows PCI devices and their device nodes, and nothing of claims, fabrics or Kubernetes.
`hardware.Accelerators` is the only interface. The kernel's sysfs and a simulator implement it, and one contract
suite tests both.

- `hardware`: `Accelerators`, the interface, and its values.
- `sysfs`: the accelerators of this node.
- `simulator`: accelerators of a node without hardware.
"""

from dradriver_fabric_cxl.accelerator.hardware import Accelerators, AttachedAccelerator, CharacterDevice

__all__ = ["Accelerators", "AttachedAccelerator", "CharacterDevice"]
