"""*Now* and *Why*: the current state of the cluster, and why a pod waits or holds what it holds."""

from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import quote

from flask import Response, request

from booking.errors import ClusterError, UnknownPodError
from booking.web.pages.interfaces import PageParts
from booking.web.pages.layout import PageLayout, Visit, is_fragment
from booking.web.pages.now_view import now_overview


class LivePages:
    """The pages ``/now`` and ``/why``."""

    def __init__(self, parts: PageParts, frame: PageLayout) -> None:
        self._parts = parts
        self._frame = frame

    def now(self) -> Response:
        """``GET /now``; htmx requests it repeatedly, and gets the parts that change."""
        visit = self._frame.visit()
        template = "nodes.html" if is_fragment() else "now.html"
        try:
            now = self._parts.live.now(visit.who)
        except ClusterError as error:
            return self._frame.page(template, visit, overview=None, trouble=str(error))
        blocks = self._parts.administration.blocks(visit.who)
        overview = now_overview(now, blocks, visit.clock, visit.who.user)
        return self._frame.page(template, visit, overview=overview, trouble="")

    def ask(self) -> Response:
        """``GET /why``: asks which pod; the form leads to that pod's address."""
        visit = self._frame.visit()
        namespace = request.args.get("namespace", "").strip()
        name = request.args.get("pod", "").strip().removeprefix("pod/")
        if namespace and name:
            address = f"/why/{quote(namespace, safe='')}/{quote(name, safe='')}"
            return Response(status=HTTPStatus.SEE_OTHER, headers={"Location": address})
        return self._page(visit, namespace, name)

    def why(self, namespace: str, name: str) -> Response:
        """``GET /why/NAMESPACE/POD``."""
        visit = self._frame.visit()
        return self._page(visit, namespace, name)

    def _page(self, visit: Visit, namespace: str, name: str) -> Response:
        answer, problem, status = None, "", HTTPStatus.OK
        mine: Sequence[tuple[str, str]] = ()
        try:
            mine = self._parts.live.mine(visit.who)
            answer = self._parts.live.why(visit.who, namespace, name) if namespace and name else None
        except UnknownPodError as error:
            problem, status = str(error), HTTPStatus.NOT_FOUND
        except ClusterError as error:
            problem, status = str(error), HTTPStatus.SERVICE_UNAVAILABLE
        return self._frame.page(
            "why.html",
            visit,
            status=status,
            namespace=namespace,
            pod=name,
            explanation=answer,
            trouble=problem,
            mine=mine,
        )
