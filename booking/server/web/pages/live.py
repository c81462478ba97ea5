"""*Now* and *Why*: the current state of the cluster, and why a pod waits or holds what it holds."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from flask import Response, render_template, request

from booking.server.errors import ClusterError, UnknownPodError
from booking.server.web.pages.interfaces import PageParts
from booking.server.web.pages.layout import PageLayout, Visit, is_fragment
from booking.server.web.pages.now_filter import NowFilter
from booking.server.web.pages.now_view import STANDINGS, NowOverview, now_overview
from booking.server.web.pages.page_versions import PageVersions, Section
from booking.server.web.pages.queue_chart import queue_chart

LONGEST_QUEUE: Final = 50
"""Pods of a line that are shown."""


class LivePages:
    """The pages ``/now``, ``/queue`` and ``/why``."""

    def __init__(self, parts: PageParts, frame: PageLayout) -> None:
        self._parts = parts
        self._frame = frame
        self._versions = PageVersions()

    def now(self) -> Response:
        """``GET /now``; htmx requests it repeatedly, and gets the sections that have changed."""
        visit = self._frame.visit()
        wanted = NowFilter.of(request.args)
        sections, overview = self._sections(visit, wanted)
        known = request.args.get("version", "") if is_fragment() else ""
        update = self._versions.update(sections, known)
        if update.version == known:
            # 304 would need no-cache for answers that must not be kept on the disk of a shared computer.
            return Response(status=HTTPStatus.NO_CONTENT)
        return self._frame.page(
            "now_sections.html" if is_fragment() else "now.html",
            visit,
            sections=sections if update.changed is None else update.changed,
            is_whole=update.changed is None,
            version=update.version,
            wanted=wanted,
            overview=overview,
            standings=STANDINGS,
        )

    def _sections(self, visit: Visit, wanted: NowFilter) -> tuple[list[Section], NowOverview | None]:
        """The contents of the page in the order in which they are shown."""
        try:
            now = self._parts.live.now(visit.who)
        except ClusterError as error:
            return [Section("now-trouble", render_template("now_trouble.html", trouble=str(error)))], None
        blocks = self._parts.bookings.blocks(visit.who)
        overview = now_overview(now, blocks, visit.clock, visit.who.user, wanted=wanted)

        def section(place: str, template: str, **values: object) -> Section:
            return Section(f"now-{place}", render_template(template, overview=overview, **values))

        return [
            section("models", "now_models.html", wanted=wanted),
            *(section(f"map-{n}", "now_map.html", group=group) for n, group in enumerate(overview.map)),
            section("turn", "now_turn.html", wanted=wanted),
            *(section(f"node-{n}", "now_node.html", node=node, n=n) for n, node in enumerate(overview.nodes)),
            section("next", "now_next.html"),
        ], overview

    def queue(self) -> Response:
        """``GET /queue``."""
        visit = self._frame.visit()
        charts = {one.model: queue_chart(one) for one in self._parts.live.shares_over_time(visit.who)}
        try:
            queue, trouble, status = self._parts.live.queue(visit.who), "", HTTPStatus.OK
        except ClusterError as error:
            queue, trouble, status = None, str(error), HTTPStatus.SERVICE_UNAVAILABLE
        return self._frame.page(
            "queue.html",
            visit,
            status=status,
            queue=queue,
            charts=charts,
            trouble=trouble,
            longest=LONGEST_QUEUE,
        )

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
