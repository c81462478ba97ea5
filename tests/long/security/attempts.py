"""Which account tries what at the API server: a table of requests, each of which must be refused."""

from dataclasses import dataclass, field
from typing import Final, Literal

from cluster import names
from tests.long.controlplane.policies.policed import HOME, MERGE, STRATEGIC, US, Json, a_binding, a_pod, pods

OTHERS: Final = "others"
"""A namespace in which nobody who tries may do anything."""
THEIRS: Final = "THEIRS"
"""A placeholder for bob's booking, whose id is unknown before it is created."""
POD: Final = f"{pods(OTHERS)}/theirs"
"""Bob's pod."""
OWN: Final = f"{pods(HOME)}/own"
"""A pod in the namespace of those who may edit there."""
BOOKINGS: Final = f"/apis/{names.DOMAIN}/v1/bookings"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{US}/leases"
CLAIMS: Final = "/apis/resource.k8s.io/v1"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"

Verb = Literal["get", "create", "patch", "delete"]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One request."""

    who: str
    what: str
    """For people."""
    verb: Verb
    path: str
    body: Json = field(default_factory=dict)
    how: str = MERGE
    policy: str | None = None
    """The policy that refuses it; None: the right was not granted."""
    or_policy: str | None = None
    """Another one that refuses it as well: the API server names either."""

    @property
    def policies(self) -> tuple[str, ...]:
        """Those of which the refusal names one."""
        return tuple(one for one in (self.policy, self.or_policy) if one)

    def __str__(self) -> str:
        return f"{self.who}: {self.what}"


def a_booking(name: str, user: str = "carol") -> Json:
    """A Booking object."""
    spec = {
        "user": user,
        "model": "NVIDIA-A100-SXM4-80GB",
        "count": 1,
        "start": "2026-01-01T00:00:00Z",
        "end": "2999-01-01T00:00:00Z",
        "storeId": "forged",
    }
    kind = {"apiVersion": f"{names.DOMAIN}/v1", "kind": "Booking"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def _annotated(**annotations: str | None) -> Json:
    return {"metadata": {"annotations": annotations}}


def _bound(role: str) -> Json:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"kind": "ServiceAccount", "name": "boss", "namespace": HOME}
    return {"metadata": {"name": "mine"}, "roleRef": reference, "subjects": [subject]}


def _lease(name: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"holderIdentity": "carol"}}


_TAINT: Final = {
    "metadata": {"name": "mine"},
    "spec": {"deviceSelector": {}, "taint": {"key": names.HELD_TAINT, "value": "x", "effect": "NoSchedule"}},
}
_SLICE: Final = {
    "metadata": {"name": "mine"},
    "spec": {"driver": names.DRA_DRIVER, "nodeName": "node-a", "pool": {"name": "node-a"}},
}
_HELD: Final = {"spec": {"holderIdentity": "carol"}}


def _policy(name: str) -> str:
    return f"{names.COMEBACK_PREFIX}{name}"


def _anybody(who: str) -> list[Attempt]:
    """What nobody may do with rights in another namespace, or with none."""
    administering = {"apiGroups": [names.DOMAIN], "resources": ["bookings"], "verbs": ["administer"]}
    token = {"spec": {"audiences": [], "expirationSeconds": 600}}
    own = f"serviceaccounts/{names.CONTROLLER}/token"
    return [
        Attempt(who=who, what=what, verb=verb, path=path, body=body)
        for what, verb, path, body in (
            ("reads all bookings", "get", BOOKINGS, {}),
            ("reads somebody's booking", "get", f"{BOOKINGS}/{THEIRS}", {}),
            ("forges a booking", "create", BOOKINGS, a_booking("b-forged")),
            ("prolongs somebody's booking", "patch", f"{BOOKINGS}/{THEIRS}", {"spec": {"count": 8}}),
            ("says what ends", "patch", f"{BOOKINGS}/{THEIRS}/status", {"status": {"ending": []}}),
            ("deletes somebody's booking", "delete", f"{BOOKINGS}/{THEIRS}", {}),
            ("annotates somebody's pod", "patch", POD, _annotated(**{names.USER: "carol"})),
            ("deletes somebody's pod", "delete", POD, {}),
            ("evicts somebody's pod", "create", f"{POD}/eviction", {"metadata": {"name": "theirs"}}),
            ("binds by the first door", "create", f"{POD}/binding", a_binding("theirs", "node-a")),
            ("binds by the second", "create", f"{POD[:-11]}bindings", a_binding("theirs", "node-a")),
            ("opens a shell in it", "get", f"{POD}/exec?command=sh", {}),
            ("reads our keys", "get", f"/api/v1/namespaces/{US}/secrets/{names.WEBHOOK_KEYS}", {}),
            ("becomes our controller", "create", f"/api/v1/namespaces/{US}/{own}", token),
            ("runs a pod among ours", "create", pods(US), a_pod(name="guest")),
            ("says how a node's agent is", "create", LEASES, _lease(names.node_lease("node-c"))),
            ("keeps the bookings fresh", "create", LEASES, _lease(names.MIRROR_LEASE)),
            ("says what GPUs a node has", "patch", "/api/v1/nodes/node-a", _annotated(**{names.DRIFT: "{}"})),
            ("keeps a GPU of claims from all", "create", f"{CLAIMS}/devicetaintrules", _TAINT),
            ("gives GPUs by claims", "create", f"{CLAIMS}/resourceslices", _SLICE),
            ("owns a namespace", "patch", f"/api/v1/namespaces/{HOME}", _annotated(**{names.OWNER: "alice"})),
            (
                "gives itself a role",
                "create",
                f"{RBAC}/namespaces/{HOME}/rolebindings",
                _bound(names.CONTROLLER),
            ),
            (
                "makes itself an administrator",
                "create",
                f"{RBAC}/namespaces/{HOME}/roles",
                {"metadata": {"name": "mine"}, "rules": [administering]},
            ),
            (
                "switches our webhook off",
                "delete",
                f"{POLICIES}/mutatingwebhookconfigurations/{names.WEBHOOK}",
                {},
            ),
            (
                "switches a policy off",
                "delete",
                f"{POLICIES}/validatingadmissionpolicybindings/{_policy('pod-state')}",
                {},
            ),
        )
    ]


def _by_policy(who: str, policy: str, *rows: tuple[str, Verb, str, Json]) -> list[Attempt]:
    return [
        Attempt(who=who, what=what, verb=verb, path=path, body=body, policy=_policy(policy))
        for what, verb, path, body in rows
    ]


OPERATOR: Final = [
    *_by_policy(
        "operator",
        "bookings",
        ("forges a booking", "create", BOOKINGS, a_booking("b-forged")),
        ("prolongs somebody's booking", "patch", f"{BOOKINGS}/{THEIRS}", {"spec": {"count": 8}}),
        ("says what ends", "patch", f"{BOOKINGS}/{THEIRS}/status", {"status": {"ending": []}}),
        ("deletes somebody's booking", "delete", f"{BOOKINGS}/{THEIRS}", {}),
    ),
    *_by_policy(
        "operator",
        "leases",
        ("keeps a silent node's agent alive", "patch", f"{LEASES}/{names.node_lease('node-b')}", _HELD),
        ("keeps the bookings fresh", "patch", f"{LEASES}/{names.MIRROR_LEASE}", _HELD),
        ("leads in our controller's place", "delete", f"{LEASES}/{names.CONTROLLER_LEASE}", {}),
    ),
    *_by_policy(
        "operator",
        "unseen-pods",
        *(
            (
                f"forges a pod's {part} where nothing checks",
                "create",
                pods(namespace),
                a_pod(name="forged", **{part: keys}),
            )
            for namespace in ("kube-system", US)
            for part, keys in (
                ("annotations", {names.USER: "bob"}),
                ("labels", {names.TERMINATE_AT: "never"}),
                ("finalizers", [names.COMEBACK]),
            )
        ),
    ),
]


def _stolen(who: str) -> list[Attempt]:
    """What no account of ours may do, with its token in anybody's hands."""
    own = f"serviceaccounts/{names.BOOKING_SERVER}/token"
    return [
        Attempt(who=who, what=what, verb=verb, path=path, body=body)
        for what, verb, path, body in (
            ("reads Secrets", "get", f"/api/v1/namespaces/{US}/secrets", {}),
            ("reads Secrets of others", "get", f"/api/v1/namespaces/{OTHERS}/secrets", {}),
            (
                "becomes another of us",
                "create",
                f"/api/v1/namespaces/{US}/{own}",
                {"spec": {"audiences": []}},
            ),
            ("gives itself a role", "create", f"{RBAC}/clusterrolebindings", _bound("cluster-admin")),
            ("opens a shell in a pod", "get", f"{POD}/exec?command=sh", {}),
            ("opens a node's kubelet", "get", "/api/v1/nodes/node-a/proxy/pods", {}),
            ("owns a namespace", "patch", f"/api/v1/namespaces/{HOME}", _annotated(**{names.OWNER: "alice"})),
            (
                "switches a policy off",
                "delete",
                f"{POLICIES}/validatingadmissionpolicies/{_policy('pod-state')}",
                {},
            ),
            ("deletes a node", "delete", "/api/v1/nodes/node-b", {}),
        )
    ]


def _without_a_right(who: str, *rows: tuple[str, Verb, str, Json]) -> list[Attempt]:
    return [Attempt(who=who, what=what, verb=verb, path=path, body=body) for what, verb, path, body in rows]


_PRIVILEGED: Final = {"spec": {"containers": [{"name": "main", "image": "example.invalid/evil"}]}}
_SECRET: Final = {"metadata": {"name": "sesame"}, "type": "Opaque"}
_TOKEN_OF_ANOTHER: Final = {
    "metadata": {
        "name": names.WEBHOOK_KEYS,
        "annotations": {"kubernetes.io/service-account.name": names.BOOKING_SERVER},
    },
    "type": "kubernetes.io/service-account-token",
}
_RETURNING: Final = {names.RECREATED_FROM: "a-uid"}
_OF_NOBODY: Final = {"template": a_pod(), "metadata": {"name": "mine"}}

CONTROLLER: Final = [
    *_stolen(names.CONTROLLER),
    *_without_a_right(
        names.CONTROLLER,
        ("forges a booking", "create", BOOKINGS, a_booking("b-forged")),
        ("binds a pod", "create", f"{POD}/binding", a_binding("theirs", "node-a")),
        ("says what GPUs a node has", "patch", "/api/v1/nodes/node-a", _annotated(**{names.INVENTORY: "[]"})),
    ),
    Attempt(
        who=names.CONTROLLER,
        what="has a pod run another image",
        verb="patch",
        path=POD,
        body=_PRIVILEGED,
        how=STRATEGIC,
        policy=_policy("controller-writes"),
    ),
    *_by_policy(
        names.CONTROLLER,
        "controller-writes",
        ("has a pod fail", "patch", f"{POD}/status", {"status": {"phase": "Failed"}}),
        ("creates any pod", "create", pods(OTHERS), a_pod(name="new")),
        ("creates one on a node", "create", pods(OTHERS), a_pod(name="new", spec={"nodeName": "node-a"})),
        ("stores somebody else's template", "create", f"{POD[:-11]}podtemplates", _OF_NOBODY),
        ("writes any Secret", "create", f"/api/v1/namespaces/{US}/secrets", _SECRET),
        ("makes itself another's token", "create", f"/api/v1/namespaces/{US}/secrets", _TOKEN_OF_ANOTHER),
    ),
    *_by_policy(
        names.CONTROLLER, "leases", ("keeps the bookings fresh", "create", LEASES, _lease("another"))
    ),
    *(
        Attempt(
            who=names.CONTROLLER,
            what="creates one that it is not shown",
            verb="create",
            path=pods(where),
            body=a_pod(name="new", annotations=_RETURNING),
            policy=_policy("controller-writes"),
            or_policy=_policy("unseen-pods"),
        )
        for where in ("kube-system", US)
    ),
]

_FORGED_BY_BINDING: Final = [
    {"annotations": {names.USER: "carol"}},
    {"annotations": {names.BOOKING: "b-1", names.ASSIGNED: "{}"}},
    {"annotations": {names.TERMINATE_AT: "2999-01-01T00:00:00Z"}},
    {"annotations": {names.HOLD: "a hold"}},
    {"labels": {names.ASSIGNED: "x"}},
]


def _binding_ones(who: str) -> list[Attempt]:
    return [
        *_stolen(who),
        *_by_policy(
            who,
            "binding-state",
            *(
                (
                    f"forges by a Binding: {keys}",
                    "create",
                    f"{POD}/binding",
                    a_binding("theirs", "node-a", **keys),
                )
                for keys in _FORGED_BY_BINDING
            ),
        ),
        *_without_a_right(
            who,
            ("forges a booking", "create", BOOKINGS, a_booking("b-forged")),
            ("annotates somebody's pod", "patch", POD, _annotated(**{names.USER: "carol"})),
        ),
    ]


SCHEDULER: Final = _by_policy(
    names.SCHEDULER_ACCOUNT,
    "leases",
    ("leads in our controller's place", "create", LEASES, _lease(names.CONTROLLER_LEASE)),
)

SERVER: Final = [
    *_stolen(names.BOOKING_SERVER),
    *_without_a_right(
        names.BOOKING_SERVER,
        ("deletes somebody's pod", "delete", POD, {}),
        ("evicts somebody's pod", "create", f"{POD}/eviction", {"metadata": {"name": "theirs"}}),
        ("says what ends", "patch", f"{BOOKINGS}/{THEIRS}/status", {"status": {"ending": []}}),
        ("leads in our controller's place", "patch", f"{LEASES}/{names.CONTROLLER_LEASE}", _HELD),
    ),
    *_by_policy(
        names.BOOKING_SERVER,
        "orders",
        ("writes on somebody's pod", "patch", POD, {"metadata": {"labels": {"app": "x"}}}),
    ),
    *_by_policy(
        names.BOOKING_SERVER,
        "server-nodes",
        ("cordons a node", "patch", "/api/v1/nodes/node-a", {"spec": {"unschedulable": True}}),
    ),
    *_by_policy(
        names.BOOKING_SERVER,
        "leases",
        ("leads in our controller's place", "create", LEASES, _lease(names.CONTROLLER_LEASE)),
    ),
]

NODE_AGENT: Final = [
    *_stolen(names.NODE_AGENT),
    *_without_a_right(
        names.NODE_AGENT,
        ("reads all bookings", "get", BOOKINGS, {}),
        ("deletes somebody's pod", "delete", POD, {}),
        ("binds a pod", "create", f"{POD}/binding", a_binding("theirs", "node-a")),
    ),
    *_by_policy(
        names.NODE_AGENT,
        "node-agents",
        (
            "says what GPUs another node has",
            "patch",
            "/api/v1/nodes/node-b",
            _annotated(**{names.INVENTORY: "[]"}),
        ),
        ("keeps another's agent alive", "patch", f"{LEASES}/{names.node_lease('node-b')}", _HELD),
    ),
]


def _at_home(who: str) -> list[Attempt]:
    """What those must not do who may edit in their own namespace, or govern it."""
    template = {"metadata": {"name": f"{names.COMEBACK_PREFIX}a-uid"}, "template": a_pod()}
    return [
        *_by_policy(
            who,
            "pod-state",
            *(
                (
                    f"writes {part} of ours on a pod of theirs: {keys}",
                    "patch",
                    OWN,
                    {"metadata": {part: keys}},
                )
                for part, keys in (
                    ("annotations", {names.USER: "bob"}),
                    ("annotations", {names.BOOKING: THEIRS}),
                    ("annotations", {names.TERMINATE_AT: "2999-01-01T00:00:00Z"}),
                    ("annotations", {names.ASSIGNED: "{}"}),
                    ("labels", {names.COMEBACK: "true"}),
                    ("finalizers", [names.COMEBACK]),
                )
            ),
        ),
        *_by_policy(
            who,
            "gpu-pods",
            (
                "names the node of a pod with a GPU",
                "create",
                pods(HOME),
                a_pod(name="placed", gpus=1, spec={"nodeName": "node-a"}),
            ),
        ),
        *_without_a_right(
            who,
            ("stores a template as ours", "create", f"/api/v1/namespaces/{HOME}/podtemplates", template),
            ("binds their own by the first door", "create", f"{OWN}/binding", a_binding("own", "node-a")),
            ("binds it by the second", "create", f"{OWN[:-9]}/bindings", a_binding("own", "node-a")),
        ),
    ]


ATTEMPTS: Final = [
    *(attempt for who in ("nobody", "user", "namespace administrator") for attempt in _anybody(who)),
    *(attempt for who in ("user", "namespace administrator") for attempt in _at_home(who)),
    *OPERATOR,
    *NODE_AGENT,
    *CONTROLLER,
    *_binding_ones(names.EXTENDER),
    *_binding_ones(names.SCHEDULER_ACCOUNT),
    *SCHEDULER,
    *SERVER,
]
