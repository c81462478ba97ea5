"""The API server in memory as one user sees it: the methods of ``Kube``."""

from collections.abc import Mapping
from typing import Any

from cluster.fake.binding import bound
from cluster.fake.core import ADMINISTRATOR, ServerCore, text_of
from cluster.fake.creating import created
from cluster.fake.ending import deleted, evicted
from cluster.fake.errors import check_preconditions, refusal
from cluster.fake.state import State, plain
from cluster.fake.updating import patched
from cluster.fake.watching import FakeWatch
from cluster.kube.errors import Request, Unsent
from cluster.kube.interface import EVERYTHING, FROM_NOW, Page, Selection, WatchOptions
from cluster.kube.resources import Resource, T


class UserKube:
    """``Kube`` for one user, whom admission and the record of calls see; every user may do everything."""

    def __init__(self, core: ServerCore, user: str = ADMINISTRATOR) -> None:
        self._core = core
        self.user = user

    def get(
        self, resource: Resource[T], name: str, *, namespace: str | None = None, within: float | None = None
    ) -> T:
        """Read an object; see ``Kube``."""
        if _is_past(within):
            raise Unsent(Request("GET", resource.path(namespace, name)), "it is too late for it")
        with self._core.call(self.user, "GET", resource.path(namespace, name)) as request:
            return self._core.found(request, resource, namespace, name).typed(resource)

    def list(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int | None = None,
        continue_: str | None = None,
    ) -> Page[T]:
        """Read a page of a list; see ``Kube``."""
        with self._core.call(self.user, "LIST", resource.path(selection.namespace)) as request:
            return self._core.pages.page(request, resource, selection, limit=limit, continue_=continue_)

    def watch(
        self, resource: Resource[T], selection: Selection = EVERYTHING, options: WatchOptions = FROM_NOW
    ) -> FakeWatch[T]:
        """Follow changes until the watch is closed or broken; no timeout ends it. See ``Kube``."""
        with self._core.call(self.user, "WATCH", resource.path(selection.namespace)) as request:
            return self._core.watches.begin(request, resource, selection, options)

    def create(
        self,
        resource: Resource[T],
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Create an object; see ``Kube``."""
        path = resource.path(namespace) + ("?dryRun=All" if dry_run else "")
        with self._core.call(self.user, "POST", path, body) as request:
            review = self._core.reviews.get(resource.plural)
            if review is not None:
                question = plain(body)
                return State({**question, "status": review(question)}).typed(resource)
            state = created(
                self._core,
                request,
                resource,
                plain(body),
                namespace=namespace,
                user=self.user,
                dry_run=dry_run,
            )
            return state.typed(resource)

    def create_subresource(
        self,
        resource: Resource[T],
        subresource: str,
        body: Mapping[str, Any],
        *,
        name: str,
        namespace: str | None = None,
        within: float | None = None,
        answered: float | None = None,
        dry_run: bool = False,
    ) -> None:
        """Bind or evict a pod; see ``Kube``. It takes no time here."""
        path = resource.path(namespace, name, subresource) + ("?dryRun=All" if dry_run else "")
        if _is_past(within) or _is_past(answered):
            raise Unsent(Request("POST", path), "it is too late for it")
        with self._core.call(self.user, "POST", path, body) as request:
            pod = self._core.found(request, resource, namespace, name)
            if subresource == "binding":
                at = text_of(self._core.now())
                binding = bound(request, pod.obj, plain(body), at)
                if not dry_run:
                    self._core.store.write(resource, binding)
            elif subresource == "eviction":
                evicted(self._core, request, pod, plain(body), resource=resource, dry_run=dry_run)
            else:
                raise refusal(request, 404, "NotFound", "the server could not find the requested resource")

    def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Merge-patch an object or its status; see ``Kube``."""
        path = resource.path(namespace, name, subresource) + ("?dryRun=All" if dry_run else "")
        with self._core.call(self.user, "PATCH", path, body) as request:
            before = self._core.found(request, resource, namespace, name)
            after = patched(
                self._core,
                request,
                before,
                plain(body),
                resource=resource,
                subresource=subresource,
                dry_run=dry_run,
            )
            return after.typed(resource)

    def delete(
        self,
        resource: Resource[T],
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete an object; see ``Kube``. A bound pod only becomes terminating, unless the grace is 0."""
        with self._core.call(self.user, "DELETE", resource.path(namespace, name)) as request:
            state = self._core.found(request, resource, namespace, name)
            wanted = {"uid": uid, "resourceVersion": resource_version}
            check_preconditions(request, state.obj, wanted, resource.kind)
            deleted(self._core, resource, state, grace_seconds)


def _is_past(seconds: float | None) -> bool:
    return seconds is not None and seconds <= 0
