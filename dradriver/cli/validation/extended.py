"""Checks extended resources across files (KEP-5004): invalid class names, and pods that cannot be served."""

from collections.abc import Iterable, Iterator

from dradriver.cli.files import Document
from dradriver.cli.validation.findings import Finding, problems_of
from dradriver.control.extended import ClassesByResource, complete_requests
from dradriver.control.extended.findings import class_findings, pod_findings
from dradriver.errors import InvalidObjectError
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import decode, from_builtins
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["extended_warnings"]


def extended_warnings(documents: Iterable[Document]) -> Iterator[Finding]:
    """Yield warnings about extended resources of classes and pods.

    Args:
        documents: all objects of the files.
    """
    listed = list(documents)
    classes = {}
    for document in listed:
        if document.kind == "DeviceClass":
            try:
                classes[document.name] = document, decode(DeviceClass, document.as_v1())
            except InvalidObjectError:
                continue  # the error is already reported
    for name, problem in class_findings(each for _, each in classes.values()):
        yield from problems_of(classes[name][0], [problem], "warning")
    by_resource = ClassesByResource.of(each for _, each in classes.values())
    for document in listed:
        if document.kind == "Pod" and (pod := _pod(document)) is not None:
            yield from problems_of(document, pod_findings(pod, by_resource), "warning")


def _pod(document: Document) -> Pod | None:
    """Return the pod with the API server's defaults; None if the pod cannot be read."""
    try:
        return complete_requests(from_builtins(Pod, document.body))
    except InvalidObjectError:
        return None
