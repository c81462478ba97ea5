"""The cookies of the login: of this host alone, and hidden from scripts and other sites."""

from typing import Final

from flask import Request, Response

from booking.server.web.login.addresses import is_loopback

_HOST_ONLY: Final = "__Host-"
"""Browsers accept such a cookie only with ``Secure``, for this host only: no other host can plant one."""


class Cookies:
    """Sets, reads and deletes the cookies of the login."""

    def __init__(self, public: str | None) -> None:
        """Args: public: URL by which people reach us; None: not known."""
        self._is_plain = public is None or public.startswith("http:")

    def get(self, request: Request, name: str) -> str | None:
        """A cookie's value; None if the request has none of that name."""
        return request.cookies.get(self._name(request, name))

    def set(
        self, answer: Response, request: Request, name: str, value: str, *, seconds: int | None = None
    ) -> None:
        """Set a cookie; without ``seconds`` the browser keeps it until it is closed."""
        answer.set_cookie(
            self._name(request, name),
            value,
            max_age=seconds,
            path="/",
            secure=not self._is_on_loopback(request),
            httponly=True,
            samesite="Lax",
        )

    def drop(self, answer: Response, request: Request, name: str) -> None:
        """Delete a cookie."""
        self.set(answer, request, name, "", seconds=0)

    def _name(self, request: Request, name: str) -> str:
        return name if self._is_on_loopback(request) else _HOST_ONLY + name

    def _is_on_loopback(self, request: Request) -> bool:
        """Whether there is no TLS and none is needed: the browser runs on this machine or uses a tunnel."""
        return self._is_plain and request.scheme == "http" and is_loopback(request.host)
