"""A small cluster with every kind of object that decides about a pod's place, and pods to ask about.

Objects as the API writes them: a real kube-scheduler (tests/controlplane) is asked about them, and ours.
"""

from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st

Json = dict[str, Any]

TEAM: Final = "team"
OTHER: Final = "other"
NAMESPACES: Final[dict[str, dict[str, str]]] = {TEAM: {"tier": "gold"}, OTHER: {"tier": "tin"}}
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
RACK: Final = "rack"
WIDGET: Final = "example.com/widget"
HAS: Final = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "20Gi", "pods": "10"}


def _node(name: str, labels: Json, allocatable: Json | None = None, **spec: Any) -> Json:
    has = {**HAS, **(allocatable or {})}
    meta = {"name": name, "labels": {HOST: name, **labels}}
    return {"metadata": meta, "spec": spec, "status": {"allocatable": has, "capacity": has}}


DEDICATED: Final = {"key": "dedicated", "value": "team", "effect": "NoSchedule"}
LEAVING: Final = {"key": "maintenance", "effect": "NoExecute"}
QUIET: Final = {"key": "quiet", "effect": "PreferNoSchedule"}
NODES: Final[tuple[Json, ...]] = (
    _node("n0", {ZONE: "a", RACK: "1"}, {WIDGET: "2"}),
    _node("n1", {ZONE: "a", RACK: "2"}, {"hugepages-2Mi": "64Mi"}, taints=[QUIET]),
    _node("n2", {ZONE: "b", RACK: "1"}),
    _node("n3", {ZONE: "b"}, {WIDGET: "4", "memory": "64Gi"}),
    _node("n4", {ZONE: "c", RACK: "3"}, taints=[DEDICATED]),
    _node("n5", {RACK: "3"}, unschedulable=True),
    _node("n6", {ZONE: "c", RACK: "10"}, {"cpu": "1", "pods": "3"}, taints=[LEAVING]),
    _node("n7", {ZONE: "d"}, {"pods": "2"}),
)


def requests(**amounts: str) -> Json:
    """A container's ``resources``."""
    return {"requests": amounts}


def container(name: str = "main", amounts: Mapping[str, str] | None = None, **more: Any) -> Json:
    """A container that asks for these amounts; extended resources need a limit, too."""
    requested = dict(amounts or {})
    limits = {key: value for key, value in requested.items() if "/" in key or key.startswith("hugepages")}
    return {"name": name, "image": "none", "resources": {"requests": requested, "limits": limits}, **more}


def a_pod(name: str, namespace: str = TEAM, labels: Json | None = None, **spec: Any) -> Json:
    """A Pod."""
    meta = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"metadata": meta, "spec": {"containers": [container()], **spec}}


def selector(**labels: str) -> Json:
    """A label selector."""
    return {"matchLabels": labels}


def term(key: str, chosen: Json | None, **more: Any) -> Json:
    """A term of pod affinity."""
    return {"topologyKey": key, **({"labelSelector": chosen} if chosen is not None else {}), **more}


def required(kind: str, *terms: Json) -> Json:
    """An ``affinity`` of one kind."""
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def mount(claim: str) -> Json:
    """A volume of a pod that is a claim."""
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


def port(number: int, **more: Any) -> Json:
    """A port of the host."""
    return {"containerPort": number, "hostPort": number, **more}


def _on(node: str, name: str, namespace: str = TEAM, labels: Json | None = None, **spec: Any) -> Json:
    return a_pod(name, namespace, labels, nodeName=node, **spec)


FAR_FROM_DB: Final = required("podAntiAffinity", term(ZONE, selector(app="db")))
FAR_FROM_GOLD: Final = required(
    "podAntiAffinity", term(RACK, selector(loud="yes"), namespaceSelector=selector(tier="gold"))
)
ALONE_ON_HOST: Final = required("podAntiAffinity", term(HOST, selector(app="web"), namespaces=[OTHER, TEAM]))
RESIDENTS: Final[tuple[Json, ...]] = (
    _on("n0", "web-0", labels={"app": "web", "v": "1"}, containers=[container(amounts={"cpu": "2500m"})]),
    _on("n0", "web-1", labels={"app": "web", "v": "2"}),
    _on("n1", "web-2", labels={"app": "web", "v": "2"}, containers=[container(ports=[port(8080)])]),
    _on("n2", "web-3", OTHER, {"app": "web"}, containers=[container(amounts={"memory": "5Gi"})]),
    _on("n0", "db-0", labels={"app": "db"}, containers=[container(amounts={WIDGET: "1"})]),
    _on("n2", "shy", labels={"app": "shy"}, affinity=FAR_FROM_DB),
    _on("n4", "proud", OTHER, affinity=FAR_FROM_GOLD),
    _on("n3", "hermit", labels={"app": "hermit"}, affinity=ALONE_ON_HOST),
    _on(
        "n3",
        "starter",
        labels={"app": "db", "loud": "yes"},
        containers=[container(amounts={"cpu": "1"})],
        initContainers=[
            container("side", {"cpu": "500m"}, restartPolicy="Always", ports=[port(9000, protocol="UDP")]),
            container("prepare", {"cpu": "3"}),
        ],
    ),
    _on("n1", "whole", containers=[container(amounts={"cpu": "1"})], resources=requests(cpu="2500m")),
    _on("n2", "local-port", containers=[container(ports=[port(8080, hostIP="127.0.0.1")])]),
    _on("n7", "one", labels={"app": "lone"}),
    _on("n7", "two", OTHER, {"app": "lone"}),
    _on("n1", "user", volumes=[mount("exclusive")]),
)
GHOSTS: Final[tuple[Json, ...]] = (
    _on(
        "n0",
        "ghost-0",
        labels={"app": "web"},
        containers=[container(amounts={"cpu": "4"}, ports=[port(8080)])],
    ),
    _on("n1", "ghost-1", labels={"app": "db"}, affinity=required("podAntiAffinity", term(ZONE, {}))),
    _on("n2", "ghost-2", OTHER, {"app": "cache"}, affinity=required("podAntiAffinity", term(HOST, {}))),
    _on("n3", "ghost-3", labels={"app": "cache", "v": "1"}, volumes=[mount("alone")]),
    _on("n7", "ghost-4", labels={"app": "web", "v": "3"}),
)
"""Pods that leave: ours sees them and that they will be gone, the real one has never seen them."""

_CLASSES: Final = {
    "immediate": {"provisioner": "maker.example.com", "volumeBindingMode": "Immediate"},
    "waiting": {"provisioner": "maker.example.com", "volumeBindingMode": "WaitForFirstConsumer"},
    "zoned": {
        "provisioner": "maker.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}],
    },
    "local": {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"},
}
CLASSES: Final[tuple[Json, ...]] = tuple({"metadata": {"name": k}, **v} for k, v in _CLASSES.items())


def _volume(
    name: str, where: Json | None = None, *, of: str | None = None, labels: Json | None = None, **spec: Any
) -> Json:
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in (where or {}).items()]
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "maker.example.com", "volumeHandle": name},
            **({"nodeAffinity": terms} if where else {}),
            **({"claimRef": {"namespace": TEAM, "name": of}} if of else {}),
            **spec,
        },
        "status": {"phase": "Bound" if of else "Available"},
    }


def _claim(name: str, volume: str | None = None, phase: str | None = None, **spec: Any) -> Json:
    done = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}} if volume else {}
    return {
        "metadata": {"name": name, "namespace": TEAM, **done},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "immediate",
            **({"volumeName": volume} if volume else {}),
            **spec,
        },
        "status": {"phase": phase or ("Bound" if volume else "Pending")},
    }


_ALONE: Final = {"accessModes": ["ReadWriteOncePod"]}
VOLUMES: Final[tuple[Json, ...]] = (
    _volume("pv-in-a", {ZONE: "a"}, of="in-a"),
    _volume("pv-on-n2", {HOST: "n2"}, of="on-n2"),
    _volume("pv-anywhere", of="anywhere"),
    _volume("pv-labelled", of="labelled", labels={ZONE: "b__c"}),
    _volume("pv-exclusive", of="exclusive", **_ALONE),
    _volume("pv-alone", of="alone", **_ALONE),
    _volume("disk-n1", {HOST: "n1"}, storageClassName="local"),
    _volume("disk-n3", {HOST: "n3"}, storageClassName="local", capacity={"storage": "50Gi"}),
    _volume("disk-n0", {HOST: "n0"}, storageClassName="local", capacity={"storage": "1Gi"}),
)
CLAIMS: Final[tuple[Json, ...]] = (
    _claim("in-a", "pv-in-a"),
    _claim("on-n2", "pv-on-n2"),
    _claim("anywhere", "pv-anywhere"),
    _claim("labelled", "pv-labelled"),
    _claim("exclusive", "pv-exclusive", **_ALONE),
    _claim("alone", "pv-alone", **_ALONE),
    _claim("dangling", "pv-gone"),
    _claim("lost", "pv-lost", "Lost"),
    _claim("unbound"),
    _claim("classless", storageClassName=""),
    _claim("to-be-made", storageClassName="waiting"),
    _claim("to-be-made-in-b", storageClassName="zoned"),
    _claim("disk", storageClassName="local"),
    _claim("big-disk", storageClassName="local", resources={"requests": {"storage": "20Gi"}}),
)
UNKNOWN_CLAIM: Final = "never-made"

# --- pods to ask about -------------------------------------------------------------------------------
_VALUES: Final = {ZONE: ("a", "b", "c"), RACK: ("1", "2", "3"), HOST: ("n0", "n1", "n2", "n3", "n7")}
KEYS: Final = st.sampled_from([ZONE, HOST, RACK])


def _sometimes(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A value that most pods do not have."""
    return st.integers(0, 4).flatmap(lambda drawn: strategy if drawn == 4 else st.none())


def _selectors() -> st.SearchStrategy[Json]:
    apps = st.sampled_from(["web", "db", "shy", "lone", "cache", "new"])
    written: st.SearchStrategy[Json] = st.builds(lambda app: selector(app=app), apps)
    kinds = st.sampled_from(["In", "NotIn"])
    by_list = st.builds(
        lambda kind, two: {"matchExpressions": [{"key": "app", "operator": kind, "values": sorted(two)}]},
        kinds,
        st.sets(apps, min_size=1, max_size=3),
    )
    there = st.sampled_from(["Exists", "DoesNotExist"])
    by_key = st.builds(lambda kind: {"matchExpressions": [{"key": "v", "operator": kind}]}, there)
    return st.one_of(written, written, by_list, by_key, st.just({}))


def _terms() -> st.SearchStrategy[list[Json]]:
    about = st.sampled_from(
        [
            {},
            {},
            {"namespaces": [OTHER]},
            {"namespaces": [TEAM, OTHER]},
            {"namespaceSelector": {}},
            {"namespaceSelector": selector(tier="tin")},
            {"namespaces": [TEAM], "namespaceSelector": selector(tier="tin")},
        ]
    )
    one = st.builds(lambda key, chosen, more: term(key, chosen, **more), KEYS, _selectors(), about)
    return st.lists(one, min_size=1, max_size=2)


def _spreads() -> st.SearchStrategy[list[Json]]:
    policy = st.sampled_from([None, "Honor", "Ignore"])

    def build(key: str, skew: int, chosen: Json, domains: int | None, **more: Any) -> Json:
        fields = {name: value for name, value in {**more, "minDomains": domains}.items() if value}
        when = "DoNotSchedule"
        return {
            "topologyKey": key,
            "maxSkew": skew,
            "whenUnsatisfiable": when,
            "labelSelector": chosen,
            **fields,
        }

    one = st.builds(
        build,
        KEYS,
        st.integers(1, 3),
        _selectors(),
        st.sampled_from([None, None, 1, 3, 5]),
        nodeAffinityPolicy=policy,
        nodeTaintsPolicy=policy,
        matchLabelKeys=st.sampled_from([None, None, ["rev"]]),
    )
    return st.lists(one, min_size=1, max_size=2, unique_by=lambda written: written["topologyKey"])


def _node_affinity() -> st.SearchStrategy[Json]:
    operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"])

    def build(key: str, operator: str, index: int) -> Json:
        values = [_VALUES[key][index]] if operator.endswith("In") else []
        return {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}

    more = st.sampled_from(
        [
            {"matchExpressions": [{"key": RACK, "operator": "Gt", "values": ["1"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]},
        ]
    )
    one = st.one_of(st.builds(build, KEYS, operators, st.integers(0, 2)), more)
    return st.lists(one, min_size=1, max_size=2).map(
        lambda terms: {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    )


def _affinity(near: Any, far: Any, nodes: Any) -> Json:
    found = {**(required("podAffinity", *near) if near else {})}
    found |= required("podAntiAffinity", *far) if far else {}
    return found | ({"nodeAffinity": nodes} if nodes else {})


def _containers() -> st.SearchStrategy[Json]:
    amounts = st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.sampled_from(["0", "100m", "500m", "1", "1500m", "1501m", "3500m", "4"]),
            "memory": st.sampled_from(["1", "1Gi", "3Gi", "3073Mi", "8Gi", "9G"]),
            "ephemeral-storage": st.sampled_from(["20Gi", "21Gi"]),
            WIDGET: st.sampled_from(["1", "2", "4"]),
        },
    )
    ports = _sometimes(
        st.sampled_from([port(8080), port(9000), port(9000, protocol="UDP"), port(8080, hostIP="127.0.0.1")])
    )

    def build(requested: Json, taken: Json | None) -> Json:
        return container(amounts=requested, **({"ports": [taken]} if taken else {}))

    return st.builds(build, st.one_of(st.just({}), amounts), ports)


def _inits() -> st.SearchStrategy[list[Json]]:
    one = st.builds(
        lambda cpu, always: ({"cpu": cpu}, {"restartPolicy": "Always"} if always else {}),
        st.sampled_from(["500m", "1", "2", "3", "4"]),
        st.booleans(),
    )
    return st.lists(one, min_size=1, max_size=3).map(
        lambda found: [container(f"i{n}", cpu, **more) for n, (cpu, more) in enumerate(found)]
    )


_TOLERANT: Final = st.sampled_from(
    [
        [{"operator": "Exists"}],
        [{"key": "dedicated", "operator": "Exists"}],
        [{"key": "dedicated", "value": "team"}, {"key": "maintenance", "operator": "Exists"}],
        [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}],
    ]
)
_LABELS: Final = st.fixed_dictionaries(
    {},
    optional={
        "app": st.sampled_from(["web", "db", "new", "cache"]),
        "loud": st.just("yes"),
        "v": st.sampled_from(["1", "2"]),
        "rev": st.sampled_from(["1", "2"]),
    },
)
_MOUNTS: Final = st.lists(
    st.sampled_from([*(c["metadata"]["name"] for c in CLAIMS), UNKNOWN_CLAIM]),
    min_size=1,
    max_size=2,
    unique=True,
)


@st.composite
def pods(draw: st.DrawFn) -> Json:
    """A pod to ask about, without a name."""
    spec: Json = {"containers": [draw(_containers())], "tolerations": draw(st.one_of(_TOLERANT, st.just([])))}
    if inits := draw(_sometimes(_inits())):
        spec["initContainers"] = inits
    affinity = _affinity(
        draw(_sometimes(_terms())), draw(_sometimes(_terms())), draw(_sometimes(_node_affinity()))
    )
    if affinity:
        spec["affinity"] = affinity
    if spread := draw(_sometimes(_spreads())):
        spec["topologySpreadConstraints"] = spread
    if mounts := draw(_sometimes(_MOUNTS)):
        spec["volumes"] = [mount(claim) for claim in mounts]
    if key := draw(_sometimes(KEYS)):
        spec["nodeSelector"] = {key: draw(st.sampled_from(_VALUES[key]))}
    return a_pod("", draw(st.sampled_from([TEAM, TEAM, OTHER])), draw(_LABELS), **spec)
