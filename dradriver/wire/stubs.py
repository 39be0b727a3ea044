"""What grpcio needs to call a driver, or to play one."""

from dradriver.wire.kubelet.dra.v1 import api_pb2_grpc as dra_v1_grpc
from dradriver.wire.kubelet.dra.v1beta1 import api_pb2_grpc as dra_v1beta1_grpc
from dradriver.wire.kubelet.dra_health.v1 import api_pb2_grpc as health_v1_grpc
from dradriver.wire.kubelet.dra_health.v1alpha1 import api_pb2_grpc as health_v1alpha1_grpc
from dradriver.wire.kubelet.pluginregistration.v1 import api_pb2_grpc as registration_v1_grpc

__all__ = ["dra_v1_grpc", "dra_v1beta1_grpc", "health_v1_grpc", "health_v1alpha1_grpc", "registration_v1_grpc"]
