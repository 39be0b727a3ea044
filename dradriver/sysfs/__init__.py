"""The standard attributes of devices (`resource.kubernetes.io/...`), as Linux reports them.

Rules for code in this package: it must only read files below one folder, by default `/sys`, and must not write.
The values must equal the values that drivers in Go publish for the same hardware (`deviceattribute` of
`k8s.io/dynamic-resource-allocation`), including their peculiarities. Claims compare devices of several drivers
by these values.

Modules:

- `pci`: `pciBusID`, `pcieRoot` and `numaNode` of a PCI device.
- `numa`: `numaNode` of a device with a known NUMA node, and the NUMA node of a CPU.
- `files`: reads files that may be missing.
"""

from dradriver.sysfs.numa import NumaForm, numa_attribute, numa_node_of_cpu
from dradriver.sysfs.pci import pci_attributes

__all__ = ["NumaForm", "numa_attribute", "numa_node_of_cpu", "pci_attributes"]
