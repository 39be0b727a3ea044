"""The standard attributes of devices (`resource.kubernetes.io/...`), as Linux reports them.

Law of this package: it reads files below one folder, by default `/sys`, and writes nothing. The values equal
those that drivers in Go publish for the same hardware (`deviceattribute` of
`k8s.io/dynamic-resource-allocation`), including their peculiarities: claims compare devices of several drivers
by these values, so equal hardware must have equal values.

Modules:

- `pci`: `pciBusID`, `pcieRoot` and `numaNode` of a PCI device.
- `numa`: `numaNode` of a NUMA node, and the node of a CPU.
- `files`: reads files that may be missing.
"""

from dradriver.sysfs.numa import NumaForm, numa_attribute, numa_node_of_cpu
from dradriver.sysfs.pci import pci_attributes

__all__ = ["NumaForm", "numa_attribute", "numa_node_of_cpu", "pci_attributes"]
