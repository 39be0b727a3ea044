"""The standard attributes of devices (`resource.kubernetes.io/...`), as Linux knows them.

Law of this package: it reads files below one folder, `/sys` unless told otherwise, and writes nothing. The
values are those that drivers in Go publish for the same hardware (`deviceattribute` of
`k8s.io/dynamic-resource-allocation`): claims compare devices of several drivers by them, so equal hardware must
read equal, oddities included.
"""

from dradriver.sysfs.numa import NumaForm, numa_attribute, numa_node_of_cpu
from dradriver.sysfs.pci import pci_attributes

__all__ = ["NumaForm", "numa_attribute", "numa_node_of_cpu", "pci_attributes"]
