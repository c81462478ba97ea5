"""Why filter keeps a pod off a node: every reason, in one table.

Each has a code, two messages, and what would change it; docs/ shows the table. One message is about a node
that is named beside it. The other is for kube-scheduler, which puts the number of nodes before it ("1 node(s)
had ..."), as before its own. That one is constant for a pod and a reason: kube-scheduler writes it into the
pod, so another text would change the pod, and a changed pod is tried again at once. So a message has no
counts of free devices, no times, and no order that may vary. A reason is also a string: its first message.

All of them are reported to kube-scheduler as "unresolvable": its own filters have counted enough free devices
on the nodes about which it asks, so evicting pods there would not help. If nodes had merely "failed", its
preemption would search for victims, find that none is needed, and fail with an error of varying text.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from cluster import event_reasons, names

KEPT: Final = 1_000
"""Reasons that are kept: one pod has the same one on many nodes."""


class Reason(str):
    """The message of a reason, with its code."""

    __slots__ = ("code", "counted")
    code: str
    counted: str
    """The message that follows a number of nodes."""

    def __new__(cls, message: str, code: str, counted: str) -> Self:
        """A message with the code of its cause, and the message that follows a number of nodes."""
        made = super().__new__(cls, message)
        made.code = code
        made.counted = counted
        return made

    def __reduce__(self) -> tuple[type["Reason"], tuple[str, str, str]]:
        return (Reason, (str(self), self.code, self.counted))

    @property
    def with_code(self) -> str:
        """The text for the scheduler, which puts a number of nodes before it, and writes it on the pod.

        The documents explain each code.
        """
        return f"{self.counted} [{self.code}]"


@dataclass(frozen=True, slots=True)
class Cause:
    """A kind of reason."""

    code: str
    pattern: str
    """The message about one node; ``{}`` is replaced by the part that depends on the pod."""
    counted: str
    """The message that follows a number of nodes; the same with ``{}``."""
    change: str
    """What would change it."""

    def reason(self, detail: str = "") -> Reason:
        """The reason as a message."""
        return _reason(self.pattern, self.code, self.counted, detail)

    def of_all(self, message: str) -> Reason:
        """The reason with a message about all nodes together; filter does not use these."""
        return Reason(message, self.code, message)


@lru_cache(KEPT)
def _reason(pattern: str, code: str, counted: str, detail: str) -> Reason:
    return Reason(pattern.replace("{}", detail), code, counted.replace("{}", detail))


ELSEWHERE: Final = Cause(
    "hold-elsewhere",
    "GPUs of node {} are kept for this pod",
    "node(s) were not {}, whose GPUs are kept for this pod",
    "nothing is needed: the pod is bound there once its GPUs are free",
)
CORDONED: Final = Cause(
    "cordoned",
    "the node is cordoned",
    "node(s) were cordoned",
    "`kubectl uncordon`; or a toleration of the node's taint",
)
UNREADABLE: Final = Cause(
    "annotations-unreadable",
    "{}",
    "node(s) had an annotation that cannot be read: {}",
    "the node agent writes its annotations again when it starts; see its log",
)
NOT_PUBLISHED: Final = Cause(
    "not-published",
    "the node has not published its GPUs",
    "node(s) had not published their GPUs",
    "the node agent runs there and finds GPUs",
)
AGENT_UNSEEN: Final = Cause(
    "agent-unseen",
    "the GPU agent of the node has not reported yet",
    "node(s) had a GPU agent that has not reported yet",
    "the node agent renews its Lease",
)
AGENT_UNRESPONSIVE: Final = Cause(
    "agent-unresponsive",
    "the GPU agent of the node is unresponsive",
    "node(s) had an unresponsive GPU agent",
    "the node agent renews its Lease again; it has not for 75 s",
)
AGENT_STOPPING: Final = Cause(
    "agent-stopping",
    "the GPU agent of the node is stopping, or its kubelet does not know it",
    "node(s) had a GPU agent that is stopping, or that the kubelet does not know",
    "the node agent is registered with the kubelet again",
)
AGENT_UNCONFIRMED: Final = Cause(
    "agent-unconfirmed",
    "the GPU agent of the node has not renewed its Lease since renewals may have been missed",
    "node(s) had a GPU agent that has not renewed its Lease since renewals may have been missed",
    "the node agent renews its Lease, which it does every 10 s",
)
KUBELET_REJECTING: Final = Cause(
    "kubelet-rejecting",
    "the kubelet of the node has rejected a pod",
    "node(s) had a kubelet that has rejected a pod",
    "the node agent renews its Lease after the rejection, and a pause of 1 s to 60 s is over",
)
KUBELET_SHORT: Final = Cause(
    "kubelet-short",
    "the kubelet of the node reports fewer allocatable GPUs than its agent has",
    "node(s) had a kubelet that reports fewer allocatable GPUs than the agent has",
    "the kubelet writes the Node's allocatable again, which takes up to 10 s",
)
KUBELET_CHOOSES: Final = Cause(
    "kubelet-chooses",
    "the kubelet of the node chooses the GPUs itself, so a pod cannot name one or leave one out",
    "node(s) had a kubelet that chooses the GPUs itself, so a pod cannot name one or leave one out",
    f"a request without {names.UUID} and {names.NOT_UUID}, or a node whose GPUs the node agent gives out",
)
NOT_GIVEN: Final = Cause(
    "not-given",
    "what is configured for the pod's claims is not given here: {}",
    "node(s) did not give what is configured for the pod's claims: {}",
    "another `config` of the claim, or of its DeviceClass",
)
TOO_MANY: Final = Cause(
    "too-many",
    "the pod asks for more GPUs than this node has",
    "node(s) had fewer GPUs than the pod asks for",
    "fewer GPUs, or a larger node",
)
NO_SUCH: Final = Cause(
    "no-such-gpu",
    "no GPU{} on this node",
    "node(s) had no GPU{}",
    "another request, or a node that has such GPUs",
)
TOO_MANY_SUCH: Final = Cause(
    "too-many-matching",
    "the pod asks for more GPUs{} than this node has",
    "node(s) had fewer GPUs{} than the pod asks for",
    "fewer GPUs, or another request",
)
MIXED_MODELS: Final = Cause(
    "too-few-of-one-model",
    "this node has fewer GPUs{} of one model than the pod asks for, and it does not list several",
    "node(s) had fewer GPUs{} of one model than the pod asks for, and it does not list several",
    f"fewer GPUs, or a list of the models that may be mixed in {names.MODEL}",
)
ANY_OF_MIXED: Final = Cause(
    "mixed-models",
    "the kubelet of this node chooses among GPUs of several models, so the pod cannot be sure of a GPU{}",
    "node(s) had a kubelet that chooses among GPUs of several models, so the pod cannot be sure of a GPU{}",
    "a request without a model, or a node whose GPUs the node agent gives out",
)
UNHEALTHY: Final = Cause(
    "unhealthy",
    "not enough GPUs{} on this node are healthy",
    "node(s) had too few healthy GPUs{}",
    "the GPUs recover, or are replaced; the node's inventory gives the reason",
)
OWNER_WAITS: Final = Cause(
    "owner-waits",
    "the node waits to change who gives out its GPUs, and gives none to new pods until then",
    "node(s) waited to change who gives out their GPUs, and gave none to new pods",
    f"what the Event {event_reasons.CHANGE_WAITS} on the Node names has ended, and its next owner gives them"
    f" out; or its label {names.DEVICE_PLUGIN} is put back",
)
HELD_MISMATCH: Final = Cause(
    "hold-mismatch",
    "the GPUs that are kept for this pod are not what it asks for",
    "node(s) had GPUs reserved for this pod that are not what it asks for",
    "nothing is needed: the GPUs are let go of within seconds, and others are found",
)
HELD_UNHEALTHY: Final = Cause(
    "hold-unhealthy",
    "a GPU that is kept for this pod is not healthy",
    "node(s) had an unhealthy GPU among those reserved for this pod",
    "nothing is needed: the GPUs are let go of within seconds, and others are found",
)
HELD_NOT_FREE: Final = Cause(
    "hold-not-free",
    "the GPUs that are kept for this pod are not free yet",
    "node(s) had their GPUs reserved for this pod, and these are not free yet",
    "the pods that hold them have ended",
)
IN_USE: Final = Cause(
    "in-use",
    "not enough GPUs{} on this node are free",
    "node(s) had too few free GPUs{}",
    "a pod there ends, or is evicted for a booked one",
)
SHARE_BESIDE_WHOLE: Final = Cause(
    "share-beside-whole",
    "the pod asks for shares of GPUs and for whole devices",
    "node(s) had no place for a pod that asks for shares of GPUs and for whole devices",
    "a pod for each",
)
SHARE_TOO_LARGE: Final = Cause(
    "share-too-large",
    "not enough GPUs of this node offer {} to pods that share",
    "node(s) had too few GPUs that offer {} to pods that share",
    "a smaller share, a whole GPU, or a node with larger ones",
)
SHARE_MODE: Final = Cause(
    "share-mode",
    "not enough GPUs of this node can be shared in the pod's mode now",
    "node(s) had too few GPUs that can be shared in the pod's mode now",
    f"the pods that share them in another mode end; or another mode in {names.SHARING}",
)
NO_SLOTS: Final = Cause(
    "no-slots",
    "not enough GPUs of this node have a slot for a further share",
    "node(s) had too few GPUs with a slot for a further share",
    "a pod there ends; or the node's GPUs are offered to pods that share",
)
SHARE_IN_USE: Final = Cause(
    "share-in-use",
    "this node has no room for {}",
    "node(s) had no room for {}",
    "a pod there ends, or is evicted for a booked one; or a smaller share",
)
SHARE_UNSEEN: Final = Cause(
    "share-unseen",
    "another device plugin gives out this node's GPUs, and the pod lacks the variable by which its containers"
    " would see a shared one",
    "node(s) had another device plugin, and the pod lacks the variable by which its containers would see a"
    " shared GPU",
    "the pod is created again while shares are given there; or a node whose GPUs the node agent gives out",
)
SHARE_UNOPENED: Final = Cause(
    "share-unopened",
    "a free GPU of this node has yet to be opened for {}",
    "node(s) had a free GPU that has yet to be opened for {}",
    "the controller opens it, by a reservation pod",
)
SHARED_BY_BOOKINGS: Final = Cause(
    "shared-by-bookings",
    "the room on this node is not on a GPU of the pod's booking",
    "node(s) had room on no GPU of the pod's booking",
    "a pod on a GPU of its booking ends, or is evicted for it",
)
ON_HOLD: Final = Cause(
    "held-for-booked-pod",
    "GPUs of this node are kept for another pod",
    "node(s) had their GPUs reserved for another pod",
    "that pod is bound, and others become free",
)
GIVEN_TWICE: Final = Cause(
    "given-twice",
    "another claim has a GPU of this pod's claims, too, and its pod was bound first",
    "node(s) had a GPU of the pod's claims that another claim has, too",
    "kube-scheduler, or the controller, takes the GPU out of this pod's claims, and it gets another one; or"
    " that other pod ends",
)
WAITS_ITS_TURN: Final = Cause(
    "waits-its-turn",
    "free GPUs go to waiting pods in the order of fair shares, and it is not this pod's turn",
    "node(s) had no GPUs for this pod before its turn in the order of fair shares",
    "nothing is needed: GPUs are kept for it when its turn comes; `kubectl gpu queue` shows the order",
)
NOMINATED: Final = Cause(
    "nominated",
    "GPUs of this node are meant for a nominated pod of the same or higher priority",
    "node(s) had their GPUs meant for a nominated pod of the same or higher priority",
    "that pod is bound, or gives up its nomination",
)
RESERVED: Final = Cause(
    "reserved",
    "the last GPUs of this node are about to be given to a pod that was placed a moment ago",
    "node(s) had their last GPUs about to be given to a pod that was placed a moment ago",
    "nothing is needed: another node fits, and this one is asked again within a second",
)
UNACCOUNTED: Final = Cause(
    "unaccounted",
    "GPUs of this node are held by pods that were not given them by GPU Booking",
    "node(s) had GPUs held by pods that were not given them by GPU Booking",
    "the node agent says which GPUs these pods hold; or they end",
)
BOOKED_BY_OTHERS: Final = Cause(
    "booked-by-others",
    "GPUs of this node are guaranteed to other bookings, which would find no place",
    "node(s) had their GPUs guaranteed to other bookings, which would find no place",
    "another node; or those bookings end or are moved",
)

ALL: Final = (
    ELSEWHERE,
    CORDONED,
    UNREADABLE,
    NOT_PUBLISHED,
    AGENT_UNSEEN,
    AGENT_UNRESPONSIVE,
    AGENT_STOPPING,
    AGENT_UNCONFIRMED,
    KUBELET_REJECTING,
    KUBELET_SHORT,
    NOT_GIVEN,
    KUBELET_CHOOSES,
    ANY_OF_MIXED,
    TOO_MANY,
    NO_SUCH,
    TOO_MANY_SUCH,
    MIXED_MODELS,
    UNHEALTHY,
    OWNER_WAITS,
    HELD_MISMATCH,
    HELD_UNHEALTHY,
    HELD_NOT_FREE,
    IN_USE,
    SHARE_BESIDE_WHOLE,
    SHARE_TOO_LARGE,
    SHARE_MODE,
    NO_SLOTS,
    SHARE_UNSEEN,
    SHARE_UNOPENED,
    SHARE_IN_USE,
    SHARED_BY_BOOKINGS,
    ON_HOLD,
    GIVEN_TWICE,
    WAITS_ITS_TURN,
    NOMINATED,
    UNACCOUNTED,
    BOOKED_BY_OTHERS,
    RESERVED,
)
"""In the order in which they are checked."""
