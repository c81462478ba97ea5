"""The cookies of the login: of this host alone, and hidden from scripts and other sites."""

from typing import Final

from flask import Request, Response

from booking.web.login.addresses import is_loopback

_HOST_ONLY: Final = "__Host-"
"""Browsers take such a cookie only with ``Secure``, for this host alone: no other can plant one."""


class Cookies:
    """Sets, reads and drops the cookies of the login."""

    def __init__(self, public: str | None) -> None:
        """Args: public: URL by which people reach us; None: not known."""
        self._is_plain = public is None or public.startswith("http:")

    def get(self, request: Request, name: str) -> str | None:
        """A cookie's value; None where the request has none of that name."""
        return request.cookies.get(self._name(request, name))

    def set(
        self, answer: Response, request: Request, name: str, value: str, *, seconds: int | None = None
    ) -> None:
        """Let the browser keep one; without ``seconds`` until it is closed."""
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
        """Let the browser forget a cookie."""
        self.set(answer, request, name, "", seconds=0)

    def _name(self, request: Request, name: str) -> str:
        return name if self._is_on_loopback(request) else _HOST_ONLY + name

    def _is_on_loopback(self, request: Request) -> bool:
        """Whether there is no TLS, and none is needed: the browser runs where we do, or forwards a port."""
        return self._is_plain and request.scheme == "http" and is_loopback(request.host)
