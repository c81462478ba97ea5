"""An API server in memory behind the interface ``Kube``.

It and the real one fulfil the same contract (tests/contracts). The modules:
``user`` (the interface's methods), ``core`` (shared by all of them), ``store`` and ``history`` (etcd),
``listing``, ``selecting`` and ``watching`` (reading), ``creating``, ``pod_defaults``, ``limit_ranges``,
``label_keys``, ``updating``, ``immutable``, ``binding`` and ``ending`` (writing), ``kinds`` (what differs
between kinds), ``faults``.

It does not authorise, validate more than these modules name, collect garbage, or end watches after a time.
Tests create objects with ``put``, act as kubelets with ``finish``, let calls fail with ``fail``, ``lose``,
``before``, ``down``, ``protect`` and ``forbid_eviction``, and read ``calls``. A PodDisruptionBudget counts by
the ``disruptionsAllowed`` of the status that a test has put.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from cluster.fake.clock import FakeClock
from cluster.fake.core import ADMINISTRATOR, Admission, Attributes, Call, Review, ServerCore, text_of
from cluster.fake.ending import finished, grace_of
from cluster.fake.history import ChangeView
from cluster.fake.kinds import COUNTED, PODS
from cluster.fake.state import Json, State, plain
from cluster.fake.store import Listener
from cluster.fake.updating import SET_BY_SERVER, is_over
from cluster.fake.user import UserKube
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.resources import Resource, T
from cluster.process.clock import Clock

__all__ = ["ADMINISTRATOR", "Admission", "Attributes", "Call", "ChangeView", "FakeKube", "Listener"]

HISTORY: Final = 100_000
"""Number of changes from which a watch can resume."""
CALLS_KEPT: Final = 100_000


class FakeKube(UserKube):
    """The API server in memory, and its administrator's client. Safe for many threads."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        streams_lists: bool = True,
        history: int = HISTORY,
        calls_kept: int = CALLS_KEPT,
    ) -> None:
        """Args: calls_kept: so many of the newest calls, and up to twice as many, are kept in ``calls``."""
        core = ServerCore(
            clock or FakeClock(), streams_lists=streams_lists, history=history, calls_kept=calls_kept
        )
        super().__init__(core)

    def as_user(self, name: str) -> Kube:
        """A client of the same server for this user.

        Methods that a subclass overrides do not apply to this client.
        """
        return UserKube(self._core, name)

    # --- objects ---------------------------------------------------------------------------------------

    def put(self, resource: Resource[T], obj: Mapping[str, Any]) -> T:
        """Store an object with its status, whether it exists or not; no call is recorded, nothing refused.

        Fields that the server sets (uid, times) are filled in, or kept, if the object does not have them.
        """
        with self._core.lock:
            return self._put(resource, plain(obj)).typed(resource)

    def raw(self, resource: Resource[T], name: str, *, namespace: str | None = None) -> Json:
        """A copy of an object as stored; no call is recorded.

        Raises:
            KeyError: there is no such object.
        """
        with self._core.lock:
            return self._stored(resource, name, namespace).copy()

    def finish(
        self, resource: Resource[T], name: str, *, namespace: str | None = None, phase: str = "Failed"
    ) -> None:
        """Let a terminating pod end in this phase and vanish, as when its kubelet releases it.

        A pod with finalizers stays, in this phase, until they are removed. Other objects vanish at once.

        Raises:
            KeyError: there is no such object.
        """
        with self._core.lock:
            finished(self._core, resource, self._stored(resource, name, namespace), phase)

    def on_change(self, listener: Listener) -> None:
        """Call a listener with every stored change, in order, while the server waits.

        An exception of the listener reaches the writer of the change, which stays. A listener may write:
        its change is reported once all listeners have received the change before.
        """
        with self._core.lock:
            self._core.store.listeners.append(listener)

    @property
    def admission(self) -> Admission | None:
        """Called at every creation of any kind, including dry runs; None admits everything."""
        return self._core.admission

    @admission.setter
    def admission(self, admission: Admission | None) -> None:
        self._core.admission = admission

    def answer(self, resource: Resource[T], review: Review) -> None:
        """Answer creations of this kind, whose objects are questions, and store none of them."""
        with self._core.lock:
            self._core.reviews[resource.plural] = review

    @property
    def calls(self) -> list[Call]:
        """The calls so far, oldest first; only the newest ones if there were very many."""
        return self._core.calls

    # --- faults ----------------------------------------------------------------------------------------

    @property
    def down(self) -> bool:
        """While True, no call is answered."""
        return self._core.faults.down

    @down.setter
    def down(self, down: bool) -> None:
        self._core.faults.down = down

    def fail(self, verb: str, error: ApiError) -> None:
        """Let the next call with this verb (GET LIST WATCH POST PATCH PUT DELETE) fail without effect."""
        with self._core.lock:
            self._core.faults.fail(verb, error)

    def forbid(self, verb: str, resource: Resource[Any]) -> None:
        """Refuse all calls with this verb for this kind from now on, as where nobody has the right."""
        with self._core.lock:
            self._core.faults.forbidden.add((verb, resource.plural))

    def lose(self, verb: str) -> None:
        """Let the next call with this verb be done and its answer be lost."""
        with self._core.lock:
            self._core.faults.lose(verb)

    def before(self, verb: str, rival: Callable[[], object]) -> None:
        """Call ``rival`` just before the next call with this verb is done: a race that is sure to happen."""
        with self._core.lock:
            self._core.faults.before(verb, rival)

    def calm(self) -> None:
        """Forget every ``fail``, ``lose`` and ``before`` that has not happened yet."""
        with self._core.lock:
            self._core.faults.clear()

    def protect(self, uid: str, *, protected: bool = True) -> None:
        """Answer evictions of this pod as if a PodDisruptionBudget forbade them, or stop doing so."""
        with self._core.lock:
            (self._core.protected.add if protected else self._core.protected.discard)(uid)

    def forbid_eviction(self, uid: str, *, code: int = 429, message: str | None = "not this one") -> None:
        """Let a webhook deny evictions of this pod with this code, or stop doing so (``message`` None)."""
        with self._core.lock:
            self._core.forbidden.pop(uid, None)
            if message is not None:
                self._core.forbidden[uid] = (code, message)

    # --- watches ---------------------------------------------------------------------------------------

    @property
    def watches(self) -> int:
        """Number of running watches: begun, and neither closed nor broken."""
        return len(self._core.watches)

    def bookmark(self) -> None:
        """Send a bookmark to every watch."""
        with self._core.lock:
            self._core.watches.bookmark()

    def break_watches(self, error: ApiError | None = None) -> None:
        """End every watch: normally (None), or with an error."""
        with self._core.lock:
            self._core.watches.end(error)

    def forget_history(self) -> None:
        """Compact: no watch can begin at an older resourceVersion than the present one, no list continue."""
        with self._core.lock:
            self._core.store.history.forget(self._core.store.version)
            self._core.pages.forget()

    # --- inside ----------------------------------------------------------------------------------------

    def _stored(self, resource: Resource[T], name: str, namespace: str | None) -> State:
        state = self._core.store.find(resource.plural, namespace, name)
        if state is None:
            raise KeyError((resource.plural, namespace, name))
        return state

    def _put(self, resource: Resource[T], obj: Json) -> State:
        metadata = obj.setdefault("metadata", {})
        store = self._core.store
        before = store.find(resource.plural, metadata.get("namespace"), metadata["name"])
        obj["metadata"] = self._filled(resource, obj, before)
        if before is None:
            return store.write(resource, obj)
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        same = {**obj["metadata"], "resourceVersion": before.metadata["resourceVersion"]}
        if {**obj, **head, "metadata": same} == before.obj:
            return before
        if is_over(obj):
            store.remove(resource, before)
            return State(obj)
        return store.write(resource, obj)

    def _filled(self, resource: Resource[T], obj: Json, before: State | None) -> Json:
        metadata = {key: value for key, value in obj["metadata"].items() if value not in (None, {}, [])}
        if before is None:
            metadata.setdefault("uid", f"uid-{next(self._core.numbers)}")
            metadata.setdefault("creationTimestamp", text_of(self._core.now()))
        else:
            for key in SET_BY_SERVER:
                if key in before.metadata:
                    metadata.setdefault(key, before.metadata[key])
        if resource.plural in COUNTED:
            metadata.setdefault("generation", before.metadata.get("generation", 1) if before else 1)
        if metadata.get("deletionTimestamp"):
            grace = grace_of(obj, None) if resource.plural == PODS else 0
            metadata.setdefault("deletionGracePeriodSeconds", grace)
        return metadata
