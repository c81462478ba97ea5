"""The table of routes: every path of the REST API, its requests and its answers."""

from http import HTTPStatus
from typing import Any, Final

from booking.server.cluster_status import Now, Queue, Why
from booking.server.store_records import Block, Exemption
from booking.server.web.interfaces import Parts, Policy
from booking.server.web.problems import CHANGED, KEY_REUSED, REFUSED, UNKNOWN, UNKNOWN_BOOKING
from booking.server.web.rest import requests, responses
from booking.server.web.rest.administration import AdministrationViews
from booking.server.web.rest.availability import AvailabilityViews
from booking.server.web.rest.bookings import BookingViews
from booking.server.web.rest.etags import IF_MATCH, TAGS
from booking.server.web.rest.idempotency_keys import KEY, LONGEST_KEY
from booking.server.web.rest.index import DocumentView, IndexView
from booking.server.web.rest.live import LiveViews
from booking.server.web.rest.parsing import Read
from booking.server.web.rest.people import PeopleViews
from booking.server.web.rest.routes import Header, Link, Nothing, Route, RouteAnswer
from booking.server.web.rest.slots import SlotViews

OK: Final = HTTPStatus.OK
_KEY: Final = Header(
    name=KEY,
    about="A name for this request. Sent again it is answered as before, and nothing is done twice; a refused"
    " one is evaluated again. No other request of the same user may have it for two days.",
    pattern="^[!-~]+$",
    longest=LONGEST_KEY,
)
_IF_MATCH: Final = Header(name=IF_MATCH, about="The version that is to be changed, or *.", pattern=TAGS)
_TAG: Final = Header(name="ETag", about="The booking's version.")
_TAG_OF_A_CHANGE: Final = Header(
    name="ETag", about="The booking's version; not with dry_run=true.", required=False
)
_LOCATION: Final = Header(name="Location", about="The booking's address.")
_LINKS: Final = tuple(Link(route=name, parameter="id") for name in ("show", "change", "release", "cancel"))
_NOT_YET: Final = "Stored, but not in the cluster yet: not guaranteed until it is."
_ONE: Final = RouteAnswer(body=responses.BookingAnswer, about="The booking.", headers=(_TAG,))
_ENDED: Final = RouteAnswer(
    body=responses.BookingAnswer,
    about="As it is now; with dry_run=true as it would be, without a tag.",
    headers=(_TAG_OF_A_CHANGE,),
)
_BOOKED: Final = {
    HTTPStatus.CREATED: RouteAnswer(
        body=responses.BookingAnswer, about="It is booked.", headers=(_LOCATION, _TAG)
    ),
    HTTPStatus.ACCEPTED: RouteAnswer(body=responses.BookingAnswer, about=_NOT_YET, headers=(_LOCATION, _TAG)),
}
_LATER: Final = RouteAnswer(body=responses.BookingAnswer, about=_NOT_YET, headers=(_TAG,))


def table(parts: Parts, *, root: str, audience: str) -> tuple[Route[Any, Any], ...]:
    """All routes; the index and the document describe all of them, themselves included."""
    bookings, administration = BookingViews(parts, root=root), AdministrationViews(parts)
    routes = (
        *_bookings(bookings),
        *_changes(bookings),
        *_questions(parts),
        *_live(LiveViews(parts)),
        *_people(PeopleViews(parts)),
        *_blocks(administration),
        *_exemptions(administration),
        *_administration(administration),
    )
    index, description = IndexView(root, audience), DocumentView(root)
    everything = (*_about_it(index, description), *routes)
    index.describe(everything)
    description.describe(everything)
    return everything


def _names_a_user(body: Read[Any]) -> bool:
    """Whether somebody books for a user who is named: only administrators may, for others."""
    return body.values.get("user") is not None


def _about_it(index: IndexView, description: DocumentView) -> tuple[Route[Any, Any], ...]:
    return (
        Route(
            method="GET",
            path="",
            name="index",
            summary="What is here, for people who found the address.",
            view=index.show,
            query=Nothing,
            body=Nothing,
            answers={OK: RouteAnswer(body=responses.Index, about="The same for everybody.")},
            access="anybody",
        ),
        Route(
            method="GET",
            path="/openapi.json",
            name="openapi",
            summary="This document.",
            view=description.show,
            query=Nothing,
            body=Nothing,
            answers={OK: RouteAnswer(body=dict[str, Any], about="OpenAPI 3.1.")},
            access="anybody",
        ),
    )


def _bookings(views: BookingViews) -> tuple[Route[Any, Any], ...]:
    return (
        Route(
            method="POST",
            path="/bookings",
            name="create",
            summary="Book; with dry_run=true only see what would come of it.",
            view=views.create,
            query=requests.DryRun,
            body=requests.BookingBody,
            answers={OK: RouteAnswer(body=responses.WouldBe, about="What would be stored."), **_BOOKED},
            headers=(_KEY,),
            kinds=(REFUSED, KEY_REUSED),
            links=_LINKS,
            needs_role=_names_a_user,
        ),
        Route(
            method="POST",
            path="/slots/booking",
            name="book-earliest",
            summary="Book the first span in which so many GPUs can be had for so long.",
            view=views.create_earliest,
            query=requests.DryRun,
            body=requests.SlotBody,
            answers={OK: RouteAnswer(body=responses.WouldBe, about="What would be stored."), **_BOOKED},
            headers=(_KEY,),
            kinds=(REFUSED, KEY_REUSED),
            links=_LINKS,
            needs_role=_names_a_user,
        ),
        Route(
            method="GET",
            path="/bookings",
            name="list",
            summary="Your running and planned bookings by start; administrators see everybody's.",
            view=views.list,
            query=requests.WhichBookings,
            body=Nothing,
            answers={OK: RouteAnswer(body=responses.BookingPage, about="A page of them.")},
            kinds=(REFUSED,),
        ),
        Route(
            method="GET",
            path="/bookings/{id}",
            name="show",
            summary="One booking.",
            view=views.show,
            query=Nothing,
            body=Nothing,
            answers={OK: _ONE},
            kinds=(UNKNOWN_BOOKING,),
        ),
    )


def _changes(views: BookingViews) -> tuple[Route[Any, Any], ...]:
    return (
        Route(
            method="PATCH",
            path="/bookings/{id}",
            name="change",
            summary="Extend, shorten, move or resize it, all at once or not at all.",
            view=views.change,
            query=requests.DryRun,
            body=requests.ChangeBody,
            answers={
                OK: RouteAnswer(
                    body=responses.BookingAnswer,
                    or_body=responses.WouldBe,
                    about="As it is now; with dry_run=true as it would be, without a tag.",
                    headers=(_TAG_OF_A_CHANGE,),
                ),
                HTTPStatus.ACCEPTED: _LATER,
            },
            headers=(_KEY, _IF_MATCH),
            kinds=(REFUSED, UNKNOWN_BOOKING, CHANGED, KEY_REUSED),
        ),
        Route(
            method="POST",
            path="/bookings/{id}/release",
            name="release",
            summary="End a running booking now; with dry_run=true only see what would come of it.",
            view=views.release,
            query=requests.DryRun,
            body=requests.EndBody,
            body_is_optional=True,
            answers={OK: _ENDED, HTTPStatus.ACCEPTED: _LATER},
            headers=(_KEY, _IF_MATCH),
            kinds=(REFUSED, UNKNOWN_BOOKING, CHANGED, KEY_REUSED),
        ),
        Route(
            method="DELETE",
            path="/bookings/{id}",
            name="cancel",
            summary="Take a planned booking back; with dry_run=true only see what would come of it.",
            view=views.cancel,
            query=requests.DryRun,
            body=requests.EndBody,
            body_is_optional=True,
            answers={OK: _ENDED, HTTPStatus.ACCEPTED: _LATER},
            headers=(_KEY, _IF_MATCH),
            kinds=(REFUSED, UNKNOWN_BOOKING, CHANGED, KEY_REUSED),
        ),
    )


def _questions(parts: Parts) -> tuple[Route[Any, Any], ...]:
    return (
        Route(
            method="POST",
            path="/slots",
            name="slots",
            summary="When so many GPUs could be had for so long: the first spans that could be booked now.",
            view=SlotViews(parts).earliest,
            query=requests.WhichSlots,
            body=requests.SlotBody,
            answers={OK: RouteAnswer(body=responses.Slots, about="At least one.")},
            kinds=(REFUSED,),
        ),
        Route(
            method="GET",
            path="/availability",
            name="availability",
            summary="What is free when, by model; maintenance too.",
            view=AvailabilityViews(parts).show,
            query=requests.WhichSpan,
            body=Nothing,
            answers={OK: RouteAnswer(body=responses.Availability, about="Without gaps, from start to end.")},
            kinds=(REFUSED,),
        ),
    )


def _live(views: LiveViews) -> tuple[Route[Any, Any], ...]:
    return (
        Route(
            method="GET",
            path="/now",
            name="now",
            summary="Nodes and GPUs with their holders, and who would be evicted next.",
            view=views.now,
            query=Nothing,
            body=Nothing,
            answers={OK: RouteAnswer(body=Now, about="What you may not see of others is null.")},
        ),
        Route(
            method="GET",
            path="/queue",
            name="queue",
            summary="Who waits for GPUs without a booking, in the order of their turns, and who holds what.",
            view=views.queue,
            query=requests.WhichModel,
            body=Nothing,
            answers={OK: RouteAnswer(body=Queue, about="What you may not see of others is null.")},
        ),
        Route(
            method="GET",
            path="/pods/{namespace}/{name}/why",
            name="why",
            summary="Why a pod waits, runs or must leave, and what would change it.",
            view=views.why,
            query=Nothing,
            body=Nothing,
            answers={OK: RouteAnswer(body=Why, about="Messages.")},
            kinds=(UNKNOWN,),
        ),
    )


def _people(views: PeopleViews) -> tuple[Route[Any, Any], ...]:
    return (
        Route(
            method="GET",
            path="/me",
            name="me",
            summary="Who you are, by which names you are known, and what holds for you now.",
            view=views.me,
            query=requests.WhichModel,
            body=Nothing,
            answers={OK: RouteAnswer(body=responses.Me, about="You.")},
        ),
        Route(
            method="GET",
            path="/policy",
            name="policy",
            summary="What holds for everybody who is not named in particular.",
            view=views.policy,
            query=requests.WhichModel,
            body=Nothing,
            answers={OK: RouteAnswer(body=Policy, about="The policy.")},
        ),
    )


def _blocks(views: AdministrationViews) -> tuple[Route[Any, Any], ...]:
    return (
        Route(
            method="GET",
            path="/admin/blocks",
            name="blocks",
            summary="Maintenance that is not over.",
            view=views.blocks,
            query=requests.WhichPage,
            body=Nothing,
            answers={OK: RouteAnswer(body=responses.BlockPage, about="A page of it, by start.")},
            access="administrator",
            kinds=(REFUSED,),
        ),
        Route(
            method="POST",
            path="/admin/blocks",
            name="add-block",
            summary="Block GPUs of a node for a while: nobody books them; with dry_run=true only try it.",
            view=views.add_block,
            query=requests.DryRun,
            body=requests.BlockBody,
            answers={
                OK: RouteAnswer(body=responses.WouldBlock, about="What would hold."),
                HTTPStatus.CREATED: RouteAnswer(body=responses.AddedBlock, about="It holds."),
            },
            access="administrator",
            headers=(_KEY,),
            kinds=(REFUSED, KEY_REUSED),
            links=(Link(route="remove-block", parameter="id"),),
        ),
        Route(
            method="DELETE",
            path="/admin/blocks/{id}",
            name="remove-block",
            summary="Give them back; with dry_run=true only try it.",
            view=views.remove_block,
            query=requests.DryRun,
            body=requests.EndBody,
            body_is_optional=True,
            answers={
                OK: RouteAnswer(
                    body=Block,
                    or_body=responses.WouldUnblock,
                    about="What it was; with dry_run=true what it is, and nothing was changed.",
                )
            },
            access="administrator",
            headers=(_KEY,),
            kinds=(UNKNOWN, REFUSED, KEY_REUSED),
        ),
    )


def _exemptions(views: AdministrationViews) -> tuple[Route[Any, Any], ...]:
    return (
        Route(
            method="GET",
            path="/admin/exemptions",
            name="exemptions",
            summary="Exemptions that are not over, of one user or of all.",
            view=views.exemptions,
            query=requests.WhichExemptions,
            body=Nothing,
            answers={OK: RouteAnswer(body=responses.ExemptionPage, about="A page of them, by start.")},
            access="administrator",
            kinds=(REFUSED,),
        ),
        Route(
            method="POST",
            path="/admin/exemptions",
            name="add-exemption",
            summary="Let other limits hold for a user for a while; with dry_run=true only try it.",
            view=views.add_exemption,
            query=requests.DryRun,
            body=requests.ExemptionBody,
            answers={
                OK: RouteAnswer(body=responses.WouldExempt, about="What would hold."),
                HTTPStatus.CREATED: RouteAnswer(body=Exemption, about="It holds."),
            },
            access="administrator",
            headers=(_KEY,),
            kinds=(REFUSED, KEY_REUSED),
            links=(Link(route="remove-exemption", parameter="id"),),
        ),
        Route(
            method="DELETE",
            path="/admin/exemptions/{id}",
            name="remove-exemption",
            summary="Let an exemption end; with dry_run=true only try it.",
            view=views.remove_exemption,
            query=requests.DryRun,
            body=requests.EndBody,
            body_is_optional=True,
            answers={
                OK: RouteAnswer(
                    body=Exemption,
                    or_body=responses.WouldRevoke,
                    about="What it was; with dry_run=true what it is, and nothing was changed.",
                )
            },
            access="administrator",
            headers=(_KEY,),
            kinds=(UNKNOWN, REFUSED, KEY_REUSED),
        ),
    )


def _administration(views: AdministrationViews) -> tuple[Route[Any, Any], ...]:
    return (
        Route(
            method="GET",
            path="/admin/audit",
            name="audit",
            summary="Who changed what, newest first.",
            view=views.audit,
            query=requests.WhichAudit,
            body=Nothing,
            answers={OK: RouteAnswer(body=responses.AuditPage, about="A page of it.")},
            access="administrator",
            kinds=(REFUSED,),
        ),
        Route(
            method="GET",
            path="/admin/denied",
            name="denied",
            summary="Requests that were not granted, newest first.",
            view=views.denied,
            query=requests.WhichPage,
            body=Nothing,
            answers={OK: RouteAnswer(body=responses.DeniedPage, about="A page of them.")},
            access="administrator",
            kinds=(REFUSED,),
        ),
        Route(
            method="POST",
            path="/admin/evictions",
            name="evict",
            summary="Order a pod to go, booked or not; with dry_run=true only see who would.",
            view=views.evict,
            query=requests.DryRun,
            body=requests.EvictionBody,
            answers={
                OK: RouteAnswer(body=responses.WouldEvict, about="Who would go."),
                HTTPStatus.ACCEPTED: RouteAnswer(body=responses.Eviction, about="It has been ordered."),
            },
            access="administrator",
            headers=(_KEY,),
            kinds=(REFUSED, UNKNOWN, KEY_REUSED),
        ),
        Route(
            method="POST",
            path="/admin/gpu-orders",
            name="order-gpu",
            summary="Cordon a GPU, uncordon it, or report its repair; with dry_run=true only try it.",
            view=views.order_gpu,
            query=requests.DryRun,
            body=requests.GpuOrderBody,
            answers={
                OK: RouteAnswer(body=responses.WouldOrderGpu, about="What would be ordered."),
                HTTPStatus.ACCEPTED: RouteAnswer(body=responses.GpuOrdered, about="It has been ordered."),
            },
            access="administrator",
            headers=(_KEY,),
            kinds=(REFUSED, UNKNOWN, KEY_REUSED),
        ),
    )
