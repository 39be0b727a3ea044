"""The kubelet's gRPC API: messages and stubs generated from `proto/` by `make proto`.

Law of this package: generated code, never edited, and these aliases. Whoever speaks to a kubelet (or plays
one) imports from here, so that the long paths of the generated modules stand in one place. The stubs load
grpcio; they are in `dradriver.wire.stubs`. The plugin needs no stubs: it serves the methods that the
descriptors name.
"""

from dradriver.wire.kubelet.dra.v1 import api_pb2 as dra_v1
from dradriver.wire.kubelet.dra.v1beta1 import api_pb2 as dra_v1beta1
from dradriver.wire.kubelet.dra_health.v1 import api_pb2 as health_v1
from dradriver.wire.kubelet.dra_health.v1alpha1 import api_pb2 as health_v1alpha1
from dradriver.wire.kubelet.pluginregistration.v1 import api_pb2 as registration_v1

__all__ = ["dra_v1", "dra_v1beta1", "health_v1", "health_v1alpha1", "registration_v1"]
