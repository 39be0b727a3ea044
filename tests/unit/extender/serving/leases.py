"""Leases that a test writes, as kube-scheduler or another extender does."""

from dradriver.kube import LEASES, Client, NotFound
from dradriver.model.core.lease import Lease, LeaseSpec
from dradriver.model.core.meta import ObjectMeta

NAMESPACE = "default"
KUBE_SCHEDULER = "dradriver-kube-scheduler"
EXTENDER = "dradriver-scheduler"


async def hold(client: Client, name: str, holder: str, seconds: int = 15) -> None:
    """Write the holder of a Lease; empty: the Lease is released."""
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=seconds)
    try:
        lease = await client.get(LEASES, name, NAMESPACE, into=Lease)
    except NotFound:
        body = Lease(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=spec)
        await client.create(LEASES, body, NAMESPACE, into=Lease)
    else:
        await client.replace(LEASES, Lease(metadata=lease.metadata, spec=spec), NAMESPACE, into=Lease)


async def holder(client: Client, name: str) -> str:
    """Return the holder of a Lease."""
    return (await client.get(LEASES, name, NAMESPACE, into=Lease)).spec.holder_identity
