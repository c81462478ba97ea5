"""Every string that crosses processes, written once: keys on objects, resource names, namespaces, Leases.

Users may write keys of ``gpu-booking.io/`` (requests). Only this product writes keys of
``state.gpu-booking.io/`` (law L7).
"""

import re
from typing import Final

DOMAIN: Final = "gpu-booking.io"
STATE_DOMAIN: Final = f"state.{DOMAIN}"
PRODUCT: Final = "gpu-booking"
METRICS_PREFIX: Final = "gpu_booking"
PROGRAM: Final = PRODUCT
"""The command line; ``kubectl gpu`` is the same."""
COMMANDS: Final = f"{METRICS_PREFIX}.commands"
"""Group of the entry points by which the command line finds commands whose code it does not know."""
COMPLETION_VARIABLE: Final = "_KUBECTL_GPU_COMPLETE"
"""By which a shell asks the command line for completions (click's protocol)."""
BACKUP: Final = "gpu-booking backup"
"""How a backup of the booking database begins."""
SETTINGS_PREFIX: Final = "GPU_BOOKING_"
FOLDER_PREFIX: Final = f"{PRODUCT}-"
"""Folders of ours among temporary files begin with it."""

# --- resources ---------------------------------------------------------------------------------------
NVIDIA_PREFIX: Final = "nvidia.com/"
GPU_RESOURCE: Final = f"{NVIDIA_PREFIX}gpu"
GPU_QUOTA: Final = f"requests.{GPU_RESOURCE}"
"""How a ResourceQuota calls the number of whole GPUs."""
MIG_MODEL: Final = "-MIG-"
"""Stands between the model of a GPU and the profile in the model of a MIG device."""
SHARED_MODEL: Final = "-SHARED"
"""Ends the model of a replica of a GPU, as NVIDIA's feature discovery writes it: a turn, not a GPU."""
CLAIMED_MODEL: Final = "-BY-CLAIM"
"""Ends the model of a GPU that is given by claims: a booking of it covers pods that ask for it so."""
MIXED_MODEL: Final = "one-of-several"
"""The model of each GPU of a node with several models whose kubelet chooses which one a pod gets."""
MIXED_REPLICA: Final = f"{MIXED_MODEL}{SHARED_MODEL}"
"""The same of a replica."""
SHARED_SUFFIX: Final = ".shared"
"""Ends the name of a resource whose replicas NVIDIA's plugin has renamed."""
MIG_RESOURCE_PREFIX: Final = f"{NVIDIA_PREFIX}mig-"
SHARED_RESOURCE: Final = f"{NVIDIA_PREFIX}gpu.shared"
"""Slots of GPUs that are given in shares, by NVIDIA's name for replicas: a container has one on each GPU."""
GPU_MEMORY: Final = f"{NVIDIA_PREFIX}gpumem"
"""MiB of memory on each of a container's GPUs (HAMi's name): with it, a request is for shares."""
GPU_MEMORY_PERCENTAGE: Final = f"{NVIDIA_PREFIX}gpumem-percentage"
"""Percent of the memory of each of a container's GPUs (HAMi's name)."""
GPU_CORES: Final = f"{NVIDIA_PREFIX}gpucores"
"""Percent of the compute of each of a container's GPUs (HAMi's name)."""
ALIYUN_MEMORY: Final = "aliyun.com/gpu-mem"
"""Memory on one GPU, in the unit of a setting, as gpushare's users request it."""
GPU_AMOUNTS: Final = (GPU_MEMORY, GPU_MEMORY_PERCENTAGE, GPU_CORES, ALIYUN_MEMORY)
"""Limits that say how much of each GPU; no node offers them, and no kube-scheduler counts them."""

DRA_DRIVER: Final = "gpu.nvidia.com"
"""Driver of GPUs that are given by claims (DRA), unless a setting says otherwise: as in NVIDIA's classes."""
CLAIM_RESOURCE: Final = f"{DOMAIN}/claim"
"""``resource`` of devices of a node whose GPUs are given by claims: no container asks for it."""
HELD_TAINT: Final = f"{STATE_DOMAIN}/held"
"""Key of the taint on a device of claims that is kept for a waiting pod: only its claims tolerate it."""
CONFLICT_TAINT: Final = f"{STATE_DOMAIN}/conflict"
"""Key of the taint on a device that was given to two claims, and of the label of its DeviceTaintRule."""
HOLD_OF: Final = f"{STATE_DOMAIN}/hold-of"
"""Label of the DeviceTaintRules of a hold: uid of the waiting pod."""

# --- requests, written by users on Pods --------------------------------------------------------------
MODEL: Final = f"{DOMAIN}/model"
"""Models that the pod accepts: a comma-separated list, any spelling (``NVIDIA A100-SXM4-80GB`` too), or MIG
profiles (``1g.10gb``). Only a pod that lists several is given GPUs of several."""

NOT_MODEL: Final = f"{DOMAIN}/not-model"
"""Models that the pod does not accept: a comma-separated list like that of ``MODEL``."""

MIN_MEMORY: Final = f"{DOMAIN}/min-memory"
"""Memory that each of its GPUs must have at least: MiB (``40960``), or a quantity (``40Gi``, ``80G``)."""

UUID: Final = f"{DOMAIN}/uuid"
"""UUIDs of the GPUs that the pod accepts, a comma-separated list; a GPU's includes its MIG devices."""

NOT_UUID: Final = f"{DOMAIN}/not-uuid"
"""UUIDs of GPUs that the pod does not accept: a comma-separated list like that of ``UUID``."""

CHECKPOINT_AT: Final = f"{DOMAIN}/checkpoint-at"
"""RFC 3339 instant of the pod's newest checkpoint: work before it is not lost by an eviction."""

CHECKPOINT_DONE: Final = f"{DOMAIN}/checkpoint-done"
"""RFC 3339 instant at which the pod has saved its work after a notice: it may be evicted at once."""

REQUESTED_NOTICE: Final = f"{DOMAIN}/notice"
"""How much notice of its eviction the pod requests: an ISO 8601 duration (``PT5M``), within a limit."""

ON_EVICT: Final = f"{DOMAIN}/on-evict"
"""What a pod becomes when it is evicted: ``recreate-without-gpu``, ``requeue`` or ``delete``."""

PRIORITY: Final = f"{DOMAIN}/priority"
"""The pod's place among the waiting pods of its user: a whole number, -100 to 100, the highest is first."""

GANG_SIZE: Final = f"{DOMAIN}/gang-size"
"""The pod starts and leaves together with others, so many in all: a whole number from 2 to 1000."""

GANG: Final = f"{DOMAIN}/gang"
"""Which pods of its user and namespace are of the pod's gang, a name; by default those of its controller."""

PLACEMENT: Final = f"{DOMAIN}/placement"
"""Which of the nodes that fit is the pod's: ``binpack``, ``spread``, ``topology`` or ``booked-reserve``."""
PLACEMENTS: Final = ("binpack", "spread", "topology", "booked-reserve")
"""The placements that a pod may request, and that may be set for all (``extender/policies/``)."""

SHARING: Final = f"{DOMAIN}/sharing"
"""How a pod shares its GPUs: ``time-slice``, ``mps``, ``any``; ``whole``: not at all, also by default."""

# --- written by administrators on Nodes --------------------------------------------------------------
SHARE_LABEL: Final = f"{DOMAIN}/share"
"""Label of a Node: ``never`` where GPUs are given whole only."""

# --- written by administrators on Namespaces ---------------------------------------------------------
OWNER: Final = f"{DOMAIN}/owner"
"""On a Namespace, by an administrator: the user id to whom the pods belong that controllers create in it."""

DEFAULT_SHARE: Final = f"{DOMAIN}/default-share"
"""On a Namespace, by an administrator: what each plain GPU of its pods means, ``25%`` or ``8Gi``."""

NEVER_EVICT: Final = f"{DOMAIN}/never-evict"
"""On a Namespace, by an administrator: ``true`` where no pod may be evicted for a booking."""

NO_VISIBLE_DEVICES: Final = f"{DOMAIN}/no-visible-devices"
"""Label of a Namespace, ``true``: its pods without a GPU get ``NVIDIA_VISIBLE_DEVICES=void``."""

# --- written by administrators on Nodes --------------------------------------------------------------
DEVICE_PLUGIN: Final = f"{DOMAIN}/device-plugin"
"""Label of a Node: who is to give out its GPUs, ``ours``, ``existing`` or ``dra``; else a setting says."""
WITHOUT_AGENT: Final = f"{DOMAIN}/without-agent"
"""Label of a Node, ``true``: no node agent of ours runs there, and the controller counts its GPUs."""

# --- state, written by us ----------------------------------------------------------------------------
USER: Final = f"{STATE_DOMAIN}/user"
"""On the Pod, by admission at its creation: its user's id; missing means that it has no user."""
GROUPS: Final = f"{STATE_DOMAIN}/groups"
"""On the Pod, by admission: those of its creator's groups by which shares are divided, a JSON list."""
NO_USER: Final = f"{STATE_DOMAIN}/no-user"
"""On a GPU pod without ``USER``, by admission at its creation: why it has no user, for people."""
BOOKING: Final = f"{STATE_DOMAIN}/booking"
"""On the Pod, by admission and reclaimer, for people: the name of the booking that covers it."""
TERMINATE_AT: Final = "terminate-at"
"""On the Pod, by admission and reclaimer, for people and MAIA's tools: when it must end, RFC 3339."""
REPLACED: Final = f"{STATE_DOMAIN}/replaced"
"""On the Pod, by admission: what of ``spec`` it replaced (``cluster.objects.replaced_fields``)."""
ADMITTED: Final = f"{STATE_DOMAIN}/admitted"
"""On a GPU pod, by admission: ``true``, whichever user it has. A policy refuses GPU pods that lack it."""
STRIPPED: Final = f"{STATE_DOMAIN}/stripped"
"""On the Pod, by admission: why it was created without the GPU that it asked for, for people."""
SHARING_MODE: Final = f"{STATE_DOMAIN}/sharing"
"""On a pod with shares, by admission: the mode that it asked for, which then does not change any more."""
RESERVES: Final = f"{STATE_DOMAIN}/reserves"
"""On a reservation pod, by the controller: the numbered GPU that it keeps for shares."""
OPENED: Final = f"{STATE_DOMAIN}/opened"
"""On a reservation pod, by the controller: UUID of the GPU that it got; from then on shares are given."""
CLOSING: Final = f"{STATE_DOMAIN}/closing"
"""On a reservation pod, by the controller: since when no more shares are given of its GPU, RFC 3339."""
VISIBLE: Final = f"{STATE_DOMAIN}/visible"
"""Annotations of a pod with shares, ``visible.<container>``: by admission empty, by its Binding the UUIDs of
that container's GPUs, which its environment takes from there (``cluster.objects.reservation_pods``)."""
LONGEST_KEY: Final = 63
"""Characters of a key after its domain."""
HOLD: Final = f"{STATE_DOMAIN}/hold"
"""On a waiting Pod, by the reclaimer: devices kept for it (``cluster.objects.hold``)."""
TURN: Final = f"{STATE_DOMAIN}/turn"
"""On a Pod in its turn, by the reclaimer: seconds from its start in which no GPU is taken for a share."""
BARRED: Final = f"{STATE_DOMAIN}/barred"
"""On a booked Pod, by the reclaimer: nodes on which a hold was of no use, comma-separated."""
BUDGETS_SINCE: Final = f"{STATE_DOMAIN}/budgets-since"
"""On a booked Pod, by the reclaimer: since when disruption budgets alone keep it waiting, RFC 3339."""
BLOCKED: Final = f"{STATE_DOMAIN}/blocked"
"""On a booked Pod, by the reclaimer: what keeps other pods from leaving for it, for people."""
WAITING_STATE: Final = (HOLD, BARRED, BUDGETS_SINCE, BLOCKED)
"""Annotations of booked Pods that exist only while these wait: their Binding empties them."""
QUEUE: Final = f"{STATE_DOMAIN}/queue"
"""Scheduling gate of a Pod without a booking, by admission, while no GPU is free; lifted by the reclaimer."""
NOTICE: Final = f"{STATE_DOMAIN}/notice"
"""On a victim, by the reclaimer: for whom and when it must leave, for people."""
COMEBACK: Final = f"{STATE_DOMAIN}/comeback"
"""Finalizer and label (``true``) of a victim and of what comes back for it; label of its PodTemplate."""
COMEBACK_DUE: Final = f"{STATE_DOMAIN}/due"
"""On a comeback's PodTemplate: when the victim's containers had ended, RFC 3339; its pod must come back."""
COMEBACK_REASON: Final = f"{STATE_DOMAIN}/reason"
"""On a comeback's PodTemplate and pod: ``evicted``, ``share``, ``overuse``, ``ended`` or ``refused``."""
COMEBACK_HOW: Final = f"{STATE_DOMAIN}/comeback-how"
"""On a comeback's PodTemplate and victim: ``as-it-was``; without it the pod comes back without a GPU."""
COMEBACK_MESSAGE: Final = f"{STATE_DOMAIN}/message"
"""On a comeback's PodTemplate and pod: why the one before it had to go, for people."""
RECREATED_FROM: Final = f"{STATE_DOMAIN}/recreated-from"
"""On a Pod that came back: the uid of the pod that it replaces."""
FIRST_CREATED: Final = f"{STATE_DOMAIN}/first-created"
"""On a Pod that came back: when the first one was created, RFC 3339."""
EVICTIONS: Final = f"{STATE_DOMAIN}/evictions"
"""On a Pod that came back with its GPU request: how often it was evicted before, a number."""
KUBELET_REJECTIONS: Final = f"{STATE_DOMAIN}/kubelet-rejections"
"""On a Pod that came back: how often in a row kubelets have rejected it, a number."""
WARNED: Final = f"{STATE_DOMAIN}/warned"
"""On a Pod, by the reclaimer: the end, and the last warning before it that its owner was given."""
END_REQUESTED: Final = f"{STATE_DOMAIN}/end-requested"
"""On an expired Pod, by the endpoint that MAIA's tools use: when its end was requested, RFC 3339."""
EVICT: Final = f"{STATE_DOMAIN}/evict"
"""On a Pod, by the booking server: an administrator's order to evict (``cluster.objects.evict_orders``)."""
INVENTORY: Final = f"{STATE_DOMAIN}/inventory"
"""On the Node, by its agent, or by the controller without one: the GPUs (``cluster.objects.inventory``)."""
COUNTED: Final = f"{STATE_DOMAIN}/counted"
"""On the Node, by the controller, ``true``: no agent runs there; ``INVENTORY`` is the controller's."""
LABELS: Final = f"{STATE_DOMAIN}/labels"
"""On the Node, by its agent: keys of the labels that it wrote there (``cluster.objects.node_labels``)."""
GIVEN_BY: Final = f"{STATE_DOMAIN}/device-plugin"
"""Label of a Node, by its agent: who gives out its GPUs now; it follows ``DEVICE_PLUGIN`` when it may."""
DEVICE_ORDERS: Final = f"{STATE_DOMAIN}/device-orders"
"""On the Node, by the booking server: GPUs cordoned or cleared (``cluster.objects.device_orders``)."""
ASSIGNED: Final = f"{STATE_DOMAIN}/assigned"
"""On the Pod, by the extender in the Binding: devices per container (``cluster.objects.assignment``)."""
DRIFT: Final = f"{STATE_DOMAIN}/drift"
"""On the Node, by its agent: devices really in a pod where they differ from ``ASSIGNED``; wins over it."""
BLOCKS: Final = f"{STATE_DOMAIN}/blocks"
"""On the Node, by the booking server: maintenance, planned and running (``cluster.objects.maintenance``)."""
NODE_KEPT: Final = f"{STATE_DOMAIN}/kept-from-autoscalers"
"""On the Node, by the booking server: it has set ``SCALE_DOWN_DISABLED``, and removes it again."""
SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""On the Node: the Cluster Autoscaler does not remove it."""
STOPPING: Final = f"{STATE_DOMAIN}/stopping"
"""On the agent's Lease: it is released, because its holder goes (SIGTERM) or the kubelet does not know it."""

HOLD_VERDICTS: Final = f"{STATE_DOMAIN}/hold-verdicts"
"""On the extender's Lease: uid of a pod with a hold -> a code, JSON (``cluster.objects.hold_verdicts``)."""

USE: Final = f"{STATE_DOMAIN}/use"
"""On the agent's Lease, by the agent: use of the GPUs, for people (``cluster.objects.device_usage``)."""

FAIR_SHARES: Final = f"{STATE_DOMAIN}/fair-shares"
"""On the controller's Lease, while it decides: ``order`` or ``reclaim``, if pods wait for their turn."""

REQUEUED_AT: Final = f"{STATE_DOMAIN}/requeued-at"
"""On our own CSIStorageCapacity ``REQUEUE_TRIGGER``, by the extender: when it last had pods requeued."""

CHANGE: Final = f"{STATE_DOMAIN}/change"
"""On the mirror's Lease, by the booking server: number of the newest change that the mirror has written."""

STORE: Final = f"{STATE_DOMAIN}/store"
"""On the mirror's Lease, by the booking server: id of the database that this change is of (law L9)."""

MODEL_LABEL: Final = f"model.{DOMAIN}/"
"""Labels of a Node, by its agent: ``model.gpu-booking.io/<model>`` is how many GPUs of that model it has."""

MODELS_LABELLED: Final = f"{MODEL_LABEL}all"
"""Label of a Node, by its agent, beside those of all of its models: how many GPUs it has of them together."""

# --- other people's keys -----------------------------------------------------------------------------
HUB_USER: Final = "hub.jupyter.org/username"
"""On JupyterHub's pods: the annotation is the raw user name, the label of that key one of its encodings."""


NO_DISRUPTION: Final = "karpenter.sh/do-not-disrupt"
"""On a Pod, ``true``: Karpenter does not remove its node by its own choice."""
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""On a Pod, ``false``: the Cluster Autoscaler does not remove its node."""
STATIC_POD: Final = "kubernetes.io/config.mirror"
"""Kubernetes' annotation on the mirror of a static pod."""

FEATURE_LABELS: Final = "nfd.node.kubernetes.io/feature-labels"
"""On a Node, by node feature discovery: keys of the labels that it owns, comma-separated."""

COMPONENT: Final = "app.kubernetes.io/component"
"""Label of the chart's pods: which part they are."""
OUR_PODS: Final = f"app.kubernetes.io/name={PRODUCT}"
"""Label selector of the chart's pods."""

# --- our own objects ---------------------------------------------------------------------------------
NAMESPACE: Final = "gpu-booking"
"""The namespace that the product is installed in, unless a setting says otherwise."""
KUBELET_LEASES: Final = "kube-node-lease"
"""The namespace in which each kubelet renews a Lease that is called as its Node."""
NODE_LEASE_PREFIX: Final = "gpu-node-"
"""A node agent's Lease is ``gpu-node-<node>`` in ``NAMESPACE``."""
SCHEDULER_NAME: Final = "gpu-booking"
"""``spec.schedulerName`` of pods that our kube-scheduler profile schedules (mode ``dedicated``)."""
SCHEDULER_LEASE: Final = "gpu-booking-scheduler"
"""By it our kube-schedulers elect their leader."""
SCHEDULER_ACCOUNT: Final = "gpu-booking-scheduler"
"""ServiceAccount of our kube-scheduler (mode ``dedicated``)."""
EXTENDER_LEASE: Final = "gpu-booking-extender"
"""Held by the extender that decides (mode ``existing``)."""
VERDICT_LEASE: Final = "gpu-booking-verdicts"
"""Renewed by the extender that leads while it answers, with ``HOLD_VERDICTS`` (law L3)."""
REQUEUE_TRIGGER: Final = "gpu-booking-requeue"
"""A CSIStorageCapacity that means nothing: touching it makes kube-scheduler retry rejected pods."""
MIRROR_LEASE: Final = "gpu-booking-mirror"
"""Renewed by the booking server while the Booking objects are true to its database (law L6)."""
CONTROLLER_LEASE: Final = "gpu-booking-controller"
"""Held by the controller that reclaims."""
SHARES_RECORD: Final = "gpu-booking-shares"
"""ConfigMap in ``NAMESPACE`` with what fair shares remember (``reclaimer.fair_shares.record``)."""
BOOKED_CLASS: Final = "gpu-booked"
"""PriorityClass of pods that a booking covers. It does not preempt: the reclaimer takes GPUs back."""
OPPORTUNISTIC_CLASS: Final = "gpu-opportunistic"
"""PriorityClass of all other pods with GPUs. It does not preempt either."""
RESERVATION_CLASS: Final = "gpu-reservation"
"""PriorityClass of reservation pods: as high as ``BOOKED_CLASS``, since booked pods may share their GPUs."""
RESERVATION_PREFIX: Final = "gpu-share-"
"""The pod in ``NAMESPACE`` that reserves a numbered GPU is ``gpu-share-<number>``."""
WEBHOOK: Final = "gpu-booking-admission"
"""The MutatingWebhookConfiguration."""
WEBHOOK_ENTRY: Final = f"admission.{DOMAIN}"
"""The webhook in it."""
LAST_WEBHOOK: Final = "zz-gpu-booking-admission"
"""The MutatingWebhookConfiguration that is asked after other people's, which are in the order of names."""
LAST_WEBHOOK_ENTRY: Final = f"last.admission.{DOMAIN}"
"""The webhook in it: for pods whose request for GPUs, scheduler or class has changed since the first."""
HIDING_WEBHOOK_ENTRY: Final = f"visible-devices.admission.{DOMAIN}"
"""Another in it, below Kubernetes 1.36: writes what ``NO_VISIBLE_DEVICES`` asks for."""
RESERVATIONS_POLICY: Final = "gpu-booking-reservations"
"""The policy that lets only the controller create pods of ``RESERVATION_CLASS``, and its binding."""
GPU_PODS_POLICY: Final = "gpu-booking-gpu-pods"
"""The policy that refuses pods with GPUs that the webhook has not seen, and its binding."""
WEBHOOK_KEYS: Final = "gpu-booking-admission"
"""Secret in ``NAMESPACE`` with the webhook's authority and certificate."""
WEBHOOK_SERVICE: Final = "gpu-booking-controller"
"""The Service by which the API server reaches the webhook."""
AUDIENCE: Final = "gpu-booking"
"""Audience of the tokens that people show to the booking server."""
CLIENT_CONFIG: Final = "gpu-booking-client"
"""ConfigMap in ``NAMESPACE`` whose key ``server`` says where people reach the booking server."""
DATABASE_CLAIM: Final = "gpu-booking-database"
"""PersistentVolumeClaim in ``NAMESPACE`` of the booking database."""
COMEBACK_PREFIX: Final = "gpu-booking-"
"""The PodTemplate of a pod that must come back is ``gpu-booking-<uid>``, in the pod's namespace."""
LIMIT_RANGER: Final = "kubernetes.io/limit-ranger"
"""Kubernetes' annotation on a Pod: the amounts that a LimitRange has filled in."""
DISRUPTION_TARGET: Final = "DisruptionTarget"
"""Kubernetes' condition of a pod that a controller, not its user, takes away."""
NOT_NOW: Final = "Not now."
"""How the extender begins why it cannot bind, no node being to blame; see ``HOLD_VERDICTS``, too."""
FAULTS_FILE: Final = "gpu-booking-faults.json"
"""In the kubelet's folder of device plugins, by the node agent: what only a reset of a GPU mends."""
CDI_KIND: Final = f"{DOMAIN}/gpu"
"""Kind of the devices in the agent's own CDI specification: ``gpu-booking.io/gpu=<uuid>``."""

CDI_FILE: Final = f"{DOMAIN}-gpu.json"
"""File of the agent's own CDI specification, in the node's folder of them."""
SHARE_KIND: Final = f"{DOMAIN}/share"
"""Kind of the CDI devices that tell a container its shares: ``gpu-booking.io/share=<uuid>-<slot>``."""
SHARE_FILE_PREFIX: Final = f"{DOMAIN}-share-"
"""The CDI specification of a slot is ``gpu-booking.io-share-<uuid>-<slot>.json``."""
LDCACHE_HOOK: Final = "gpu-booking-ldcache"
"""Hook in the agent's CDI specification by which a container's loader finds the driver's libraries."""
SOCKET_PREFIX: Final = "gpu-booking-"
"""The node agent's sockets in the kubelet's folder of device plugins begin with it."""
DATABASE_FILE: Final = f"/var/lib/{PRODUCT}/bookings.db"
"""The booking database of the booking server's pod, unless a setting says otherwise."""

# --- in a browser ------------------------------------------------------------------------------------
SESSION_COOKIE: Final = "gpu-booking-session"
"""The cookie of a user who is signed in; with TLS it is prefixed by ``__Host-``."""
DEMO: Final = f"{PRODUCT}-demo"
"""How the demo's cookies and its temporary folder begin."""
LOGIN_COOKIE: Final = "gpu-booking-login"
"""The cookie of a user whom the OIDC provider is about to send back; the same."""
FORM_COOKIE: Final = "gpu-booking-form"
"""The cookie with a form that was sent after its session had ended, until its user is back; the same."""

# --- environment inside a container ------------------------------------------------------------------
DEVICES_VARIABLE: Final = "GPU_BOOKING_DEVICES"
"""UUIDs of the container's GPUs, comma-separated: for people; the device nodes are the truth."""
GPU_MEMORY_VARIABLE: Final = "GPU_BOOKING_GPU_MEMORY_MIB"
"""MiB that the container may use of each of the GPUs in ``GPU_BOOKING_DEVICES``, comma-separated."""
GPU_CORES_VARIABLE: Final = "GPU_BOOKING_GPU_CORES"
"""Percent of the compute of each GPU that the container was promised, if it was."""
VISIBLE_DEVICES_VARIABLE: Final = "NVIDIA_VISIBLE_DEVICES"
"""What NVIDIA's container runtime reads: UUIDs with the strategy ``environment``, ``none`` for no GPU."""

# --- components, as they name themselves in Events, field managers and User-Agent ----------------------
NODE_AGENT: Final = "gpu-booking-node-agent"
"""The node agent, as it names itself to the API server; its ServiceAccount."""
EXTENDER: Final = "gpu-booking-extender"
"""The extender, as it names itself; its ServiceAccount."""
BOOKING_SERVER: Final = "gpu-booking-server"
"""The booking server, as it names itself; its ServiceAccount and Service."""
CONTROLLER: Final = "gpu-booking-controller"
"""The controller, as it names itself; its ServiceAccount."""
UNINSTALLER: Final = "gpu-booking-uninstall"
"""What tidies up before the product goes, as it names itself; its Job and its ServiceAccount."""
CLI: Final = "gpu-booking-cli"
"""The command line, as it names itself."""

# --- the developer's cluster, which is not shipped -----------------------------------------------------
DEVCLUSTER: Final = f"{PRODUCT}-devcluster"
"""The developer's cluster, as it names itself, and its certificate authority: not shipped."""
MARK_PREFIX: Final = f"{PRODUCT}."
"""Locks and control groups of developers' clusters begin with it."""


def setting(field: str) -> str:
    """The environment variable of a setting.

    >>> setting("probe_port")
    'GPU_BOOKING_PROBE_PORT'
    """
    return f"{SETTINGS_PREFIX}{field.upper()}"


def is_gpu_resource(name: str) -> bool:
    """Whether a resource name means GPUs that this product advertises: whole, MIG profiles, slots of shares.

    The webhook, the ledger and the scheduler's configuration all use this predicate.
    """
    return name in (GPU_RESOURCE, SHARED_RESOURCE) or name.startswith(MIG_RESOURCE_PREFIX)


def is_gpu_amount(name: str) -> bool:
    """Whether a resource name says how much of each GPU a container gets."""
    return name in GPU_AMOUNTS


def is_gpu_request(name: str) -> bool:
    """Whether a resource name asks for GPUs, or says how much of them."""
    return is_gpu_resource(name) or is_gpu_amount(name)


def is_ours(key: str) -> bool:
    """Whether only this product may write an annotation, label or finalizer (law L7)."""
    return key == TERMINATE_AT or key.startswith(f"{STATE_DOMAIN}/")


def user_agent(component: str, version: str) -> str:
    """How a component of a version names itself (``User-Agent``, RFC 9110).

    >>> user_agent(NODE_AGENT, "1.0")
    'gpu-booking-node-agent/1.0'
    """
    return f"{component}/{version}"


def host_of(service: str) -> str:
    """The host name of one of our Services within a cluster.

    >>> host_of(EXTENDER)
    'gpu-booking-extender.gpu-booking.svc'
    """
    return f"{service}.{NAMESPACE}.svc"


def node_lease(node: str) -> str:
    """The name of the Lease that a node's agent renews."""
    return NODE_LEASE_PREFIX + node


def node_of_lease(lease: str) -> str | None:
    """The node whose agent renews this Lease; None for a Lease that is not an agent's."""
    return lease.removeprefix(NODE_LEASE_PREFIX) if lease.startswith(NODE_LEASE_PREFIX) else None


_NOT_IN_A_LABEL: Final = re.compile(r"[^A-Za-z0-9_.\s-]")


def as_label(text: str) -> str:
    """A text without what a label's value cannot have, as NVIDIA's feature discovery does; not shortened.

    >>> as_label("GeForce RTX(TM) 4090"), as_label("[]")
    ('GeForce-RTXTM-4090', '')
    """
    return "-".join(_NOT_IN_A_LABEL.sub("", text).split()).strip("-_.")


def model_label(name: str) -> str:
    """A GPU model in label form, as it is stored; a name of which nothing is left stays as it is.

    >>> model_label("NVIDIA RTX A6000"), model_label("Quadro RTX 6000/8000 [TU102]")
    ('NVIDIA-RTX-A6000', 'Quadro-RTX-60008000-TU102')
    """
    return as_label(name) or "-".join(name.split())


def claimed_model(model: str) -> str:
    """The model of a device that is given by claims.

    >>> claimed_model("NVIDIA-A100"), claimed_model("NVIDIA-A100-MIG-1g.10gb")
    ('NVIDIA-A100-BY-CLAIM', 'NVIDIA-A100-BY-CLAIM-MIG-1g.10gb')
    """
    whole, mig, profile = model.partition(MIG_MODEL)
    return f"{whole}{CLAIMED_MODEL}{mig}{profile}"


def mig_profile(model: str) -> str | None:
    """The profile in the model of a MIG device; None for a whole GPU's model.

    >>> mig_profile("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb")
    '1g.10gb'
    """
    return model.rpartition(MIG_MODEL)[2] if MIG_MODEL in model else None


def demo_cookie(port: int) -> str:
    """The cookie of a visitor of the demo on a port: browsers send cookies to every port of a host."""
    return f"{DEMO}-{port}"
