"""The pages put together: addresses, headers, problems."""

from typing import Final

from flask import Blueprint
from werkzeug.exceptions import MethodNotAllowed, NotFound

from booking.server.web.pages.admin import AdminPages
from booking.server.web.pages.assets import Assets
from booking.server.web.pages.booking import BookingPages
from booking.server.web.pages.interfaces import PageParts
from booking.server.web.pages.kept import KeptPage
from booking.server.web.pages.layout import PageLayout, protect
from booking.server.web.pages.live import LivePages
from booking.server.web.pages.mine import MinePages
from booking.server.web.pages.whoami import WhoamiPage
from booking.server.web.signing_in import KEPT

NAME: Final = "pages"
"""Name of the blueprint: Flask puts it before every endpoint's name."""
_CHANGES: Final = "any(length, move, resize, take)"
"""What a form may change of a booking (``mine.ChangeVerb``)."""


def pages(parts: PageParts) -> Blueprint:
    """The routes of all pages, with the files that they load."""
    made = Blueprint(NAME, "booking.server.web.pages", template_folder="templates")
    assets = Assets()
    frame = PageLayout(parts, assets)
    booking, mine = BookingPages(parts, frame), MinePages(parts, frame)
    live, admin = LivePages(parts, frame), AdminPages(parts, frame)
    routes = (
        ("GET", "/static/<path:name>", "static", assets.serve),
        ("GET", "/", "availability", booking.show),
        ("POST", "/", "book", booking.book),
        ("GET", "/book", "fill", booking.fill),
        ("POST", "/check", "check", booking.check),
        ("GET", "/inside", "inside", booking.inside),
        ("GET", "/mine", "mine", mine.show),
        ("POST", f"/mine/<booking_id>/<{_CHANGES}:verb>", "change", mine.change),
        ("POST", f"/mine/<booking_id>/<{_CHANGES}:verb>/check", "check-change", mine.check),
        ("GET", "/mine/<booking_id>/instead", "instead", mine.instead),
        ("POST", "/mine/<booking_id>/release", "release", mine.release),
        ("POST", "/mine/<booking_id>/cancel", "cancel", mine.cancel),
        ("GET", "/now", "now", live.now),
        ("GET", "/queue", "queue", live.queue),
        ("GET", "/why", "ask", live.ask),
        ("GET", "/why/<namespace>/<name>", "why", live.why),
        ("GET", KEPT, "kept", KeptPage(parts, frame).show),
        ("GET", "/whoami", "whoami", WhoamiPage(parts, frame).show),
        ("GET", "/admin", "maintenance", admin.maintenance),
        ("POST", "/admin", "block", admin.block),
        ("POST", "/admin/blocks/<block_id>/remove", "unblock", admin.unblock),
        ("GET", "/admin/exemptions", "exemptions", admin.exemptions),
        ("POST", "/admin/exemptions", "exempt", admin.exempt),
        ("POST", "/admin/exemptions/<exemption_id>/remove", "unexempt", admin.unexempt),
        ("GET", "/admin/bookings", "everybodys", admin.bookings),
        ("POST", "/admin/bookings/<booking_id>/end", "end", admin.end),
        ("POST", "/admin/pods/evict", "evict", admin.evict),
        ("GET", "/admin/policy", "policy", admin.policy),
        ("GET", "/admin/audit", "audit", admin.audit),
        ("GET", "/admin/denied", "denied", admin.denied),
    )
    for method, path, name, view in routes:
        made.add_url_rule(path, name, view, methods=[method], provide_automatic_options=False)
    made.register_error_handler(Exception, frame.problem)
    # A mistyped address, or a form's address that is loaded again, belongs to no blueprint.
    made.app_errorhandler(NotFound)(frame.no_page)
    made.app_errorhandler(MethodNotAllowed)(frame.no_page)
    made.after_request(protect)
    return made
