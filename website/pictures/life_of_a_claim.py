"""The life of a claim: which program does what, in order."""

from typing import Final

from website.pictures.drawing import Drawing

__all__ = ["draw_life_of_a_claim"]

_PROGRAMS: Final = ("claim controller", "scheduler", "API server", "kubelet", "driver", "container runtime")
_CONTROLLER, _SCHEDULER, _API, _KUBELET, _DRIVER, _RUNTIME = range(len(_PROGRAMS))
_STEPS: Final = (
    (_DRIVER, _API, "publish the ResourceSlices"),
    (_CONTROLLER, _API, "create the claim of the pod"),
    (_SCHEDULER, _API, "write allocation and reservation"),
    (_SCHEDULER, _API, "bind the pod to the node"),
    (_KUBELET, _DRIVER, "NodePrepareResources"),
    (_DRIVER, _API, "read the claim, check it"),
    (_DRIVER, _DRIVER, "record as preparing"),
    (_DRIVER, _DRIVER, "prepare()"),
    (_DRIVER, _DRIVER, "write the CDI spec"),
    (_DRIVER, _DRIVER, "record as prepared"),
    (_DRIVER, _KUBELET, "CDI device IDs"),
    (_KUBELET, _RUNTIME, "start the containers with the devices"),
    (_KUBELET, _DRIVER, "NodeUnprepareResources"),
    (_DRIVER, _DRIVER, "unprepare(), delete the record"),
    (_DRIVER, _KUBELET, "done"),
    (_CONTROLLER, _API, "release and delete the claim"),
)
"""The program that acts, the program that it calls, and what happens."""

_WIDTH: Final = 164
_STEP: Final = 34


def draw_life_of_a_claim() -> str:
    """Return the SVG of the sequence."""
    bottom = 76 + _STEP * len(_STEPS)
    description = "; ".join(
        f"{_PROGRAMS[actor]} to {_PROGRAMS[target]}: {text}" for actor, target, text in _STEPS
    )
    drawing = Drawing("The life of a claim", description, (_WIDTH * len(_PROGRAMS) + 10, bottom + 20))
    columns = [_WIDTH / 2 + 5 + index * _WIDTH for index in range(len(_PROGRAMS))]
    for x, name in zip(columns, _PROGRAMS, strict=True):
        drawing.add_line([(x, 54), (x, bottom)], arrow=False, faint=True)
        drawing.add_box((x, 34), (_WIDTH - 16, 36), name)
    for index, (actor, target, text) in enumerate(_STEPS):
        y = 92 + index * _STEP
        start, end = columns[actor], columns[target]
        if actor == target:
            drawing.add_line([(start, y - 12), (start + 16, y - 12), (start + 16, y + 4), (start + 2, y + 4)])
            drawing.add_label((start + 22, y), text, anchor="start")
        else:
            drawing.add_line([(start, y), (end + (2 if end < start else -2), y)])
            drawing.add_label(((start + end) / 2, y - 6), text)
    return drawing.render()
