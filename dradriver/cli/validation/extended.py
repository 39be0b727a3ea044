"""Extended resources across the files (KEP-5004): classes whose names do not do, pods that can't be served."""

from collections.abc import Iterable, Iterator

from dradriver.cli.files import Document
from dradriver.cli.validation.findings import Finding, problems_of
from dradriver.control.extended import ClassesByResource, completed
from dradriver.control.extended.findings import class_findings, pod_findings
from dradriver.errors import InvalidObjectError
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import decode, from_builtins
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["extended_warnings"]


def extended_warnings(documents: Iterable[Document]) -> Iterator[Finding]:
    """Warnings about the classes and pods among these objects; pods are looked at for nothing else."""
    listed = list(documents)
    classes = {}
    for document in listed:
        if document.kind == "DeviceClass":
            try:
                classes[document.name] = document, decode(DeviceClass, document.as_v1())
            except InvalidObjectError:
                continue  # said already
    for name, problem in class_findings(each for _, each in classes.values()):
        yield from problems_of(classes[name][0], [problem], "warning")
    by_resource = ClassesByResource.of(each for _, each in classes.values())
    for document in listed:
        if document.kind == "Pod" and (pod := _pod(document)) is not None:
            yield from problems_of(document, pod_findings(pod, by_resource), "warning")


def _pod(document: Document) -> Pod | None:
    """The pod as it will be stored; None if it can't be read."""
    try:
        found = from_builtins(Pod, document.body)
    except InvalidObjectError:
        return None
    return completed(found)
