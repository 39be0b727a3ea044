"""Templates and what kubectl prints for them. `make interop` compares the tables with kubectl."""

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train-0", "namespace": "team", "labels": {"app": "a", "example.com/tier": "front"}},
    "spec": {
        "nodeName": "node-1",
        "hostNetwork": True,
        "priority": 7,
        "containers": [
            {"name": "main", "image": "i:1", "ports": [{"containerPort": 80}, {"containerPort": 443}]},
            {"name": "side", "image": "i:2", "ports": [{"containerPort": 9090}]},
            {"name": "log", "image": "i:3"},
        ],
    },
}

CASES = {
    "{.metadata.name}": "train-0",
    "{$.metadata.name}": "train-0",
    "name: {.metadata.name}!": "name: train-0!",
    "{.metadata.nothing}": "",
    "{.spec.hostNetwork} {.spec.priority}": "true 7",
    "{.metadata.labels}": '{"app":"a","example.com/tier":"front"}',
    r"{.metadata.labels.example\.com/tier}": "front",
    "{.metadata.labels['app']}": "a",
    r"{.metadata.labels['example\.com/tier']}": "front",
    "{.spec.containers[*].name}": "main side log",
    "{.spec.containers[0].name}": "main",
    "{.spec.containers[-1].name}": "log",
    "{.spec.containers[0:2].name}": "main side",
    "{.spec.containers[-2:].name}": "side log",
    "{.spec.containers[::2].name}": "main log",
    "{.spec.containers[0,2].name}": "main log",
    "{.spec.containers[*]['name','image']}": "main side log i:1 i:2 i:3",
    "{.spec.containers[*].ports[*].containerPort}": "80 443 9090",
    "{..containerPort}": "80 443 9090",
    '{.spec.containers[?(@.name=="side")].image}': "i:2",
    "{.spec.containers[?(@.name!='side')].name}": "main log",
    "{.spec.containers[?(@.ports)].name}": "main side",
    "{.spec.containers[*].ports[?(@.containerPort>400)].containerPort}": "443 9090",
    "{.spec.containers[*].ports[?(@.containerPort<=443)].containerPort}": "80 443",
    "{range .spec.containers[*]}{.name}={.image}{'\\n'}{end}": "main=i:1\nside=i:2\nlog=i:3\n",
    '{range .spec.containers[*]}{.name}{"\\t"}{end}': "main\tside\tlog\t",
    "{range .spec.containers[*]}{.name}:{range .ports[*]}{.containerPort},{end};{end}": (
        "main:80,443,;side:9090,;log:;"
    ),
    "{range .spec.containers[*]}{.name}": "mainsidelog",
    "{.metadata.name}{' '}{.metadata.namespace}": "train-0 team",
    "{.spec.containers[0].ports[0]}": '{"containerPort":80}',
    "{@.metadata.name}": "train-0",
}

INVALID = [
    "{.metadata.name",
    "{.metadata.name}{end}",
    "{.spec.containers[9].name}",
    "{.spec.containers[?(@.name=='a'].name}",
    "{.metadata.labels['app}",
]

FLEET = {
    "apiVersion": "example.com/v1",
    "kind": "Fleet",
    "metadata": {"name": "fleet"},
    "units": [
        {
            "metadata": {"name": "gpu-0", "labels": {"app.kubernetes.io/name": "train", "tier": "a"}},
            "spec": {"devices": [{"name": "d0", "memory": 40}, {"name": "d1", "memory": 80}], "ready": True},
            "note": "<a&b>",
        },
        {
            "metadata": {"name": "gpu-1", "labels": {"tier": "b"}},
            "spec": {"devices": [], "ready": False, "weight": 1.5},
            "note": None,
        },
        {"metadata": {"name": "gpu-2"}, "spec": {"devices": [{"name": "d2", "memory": 20}]}},
    ],
}

FLEET_CASES = {
    "nothing to evaluate": "nothing to evaluate",
    "{['kind']}": "Fleet",
    "{.units[1].metadata.labels.*}": "b",
    "{.units[:1].metadata.name}": "gpu-0",
    "{.units[1:].metadata.name}": "gpu-1 gpu-2",
    "{.units[0:3:2].metadata.name}": "gpu-0 gpu-2",
    "{.units[3:].metadata.name}": "",
    "{.units[9:9].metadata.name}": "",
    "{.units[0].metadata['name','labels']}": 'gpu-0 {"app.kubernetes.io/name":"train","tier":"a"}',
    r"{.units[0].metadata.labels.app\.kubernetes\.io/name}": "train",
    "{.units[0].spec..memory}": "40 80",
    "{.units[0].spec.devices}": '[{"memory":40,"name":"d0"},{"memory":80,"name":"d1"}]',
    "{.units[1].spec.weight}": "1.5",
    "{.units[*].spec.weight}": "1.5",
    "{.units[1].spec.devices[*].name}": "",
    "{.units[*].note}": "<a&b> null",
    "{.units[0]['spec','note']}": (
        '{"devices":[{"memory":40,"name":"d0"},{"memory":80,"name":"d1"}],"ready":true} <a&b>'
    ),
    "{.units[0:1].metadata.labels.tier}{'<'}": "a<",
    '{.units[?(@.metadata.name=="gpu-1")].spec.ready}': "false",
    "{.units[*].spec.devices[?(@.memory>30)].name}": "d0 d1",
    "{.units[*].spec.devices[?(@.memory<=40)].name}": "d0 d2",
    "{.units[?(@.spec.weight)].metadata.name}": "gpu-1",
    "{.units[?(@.spec.ready==true)].metadata.name}": "gpu-0",
    "{.units[?(@.metadata.name==@.metadata.name)].metadata.name}": "gpu-0 gpu-1 gpu-2",
    "{range .units[*]}[{.metadata.name}] {end}done": "[gpu-0] [gpu-1] [gpu-2] done",
    '{range .units[*]}{.metadata.name}:{range .spec.devices[*]} {.name}{end}{"\\t"}{end}': (
        "gpu-0: d0 d1\tgpu-1:\tgpu-2: d2\t"
    ),
    '{"names: "}{.units[*].metadata.name}': "names: gpu-0 gpu-1 gpu-2",
    "{ .units[0].metadata.name }": "gpu-0",
    "{.units[0].metadata.labels.tier}{@.kind}": "aFleet",
    "{.units[1]}": (
        '{"metadata":{"labels":{"tier":"b"},"name":"gpu-1"},"note":null,'
        '"spec":{"devices":[],"ready":false,"weight":1.5}}'
    ),
    "{.units[0:1]}": (
        '{"metadata":{"labels":{"app.kubernetes.io/name":"train","tier":"a"},"name":"gpu-0"},'
        r'"note":"\u003ca\u0026b\u003e",'
        '"spec":{"devices":[{"memory":40,"name":"d0"},{"memory":80,"name":"d1"}],"ready":true}}'
    ),
}

FLEET_INVALID = [
    "{.kind",
    "{.units[0}",
    "{.units[?(@.a==1]}",
    "{.kind[0]}",
    "{.units[0:9]}",
    "{.units[5:1]}",
    "{.units[2:1]}",
    "{.units[0:2:0]}",
    "{.units[?(@.metadata.name>1)]}",
    "{.units[?(@.note=='a')]}",
    "{.units[?(@.spec.ready<true)]}",
]

TABLES = [
    *((POD, template, output) for template, output in CASES.items()),
    *((FLEET, template, output) for template, output in FLEET_CASES.items()),
]
"""An object, a template and its output."""

REJECTED = [*((POD, template) for template in INVALID), *((FLEET, template) for template in FLEET_INVALID)]
"""An object and a template that does not fit it."""
