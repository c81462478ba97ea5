"""Which addresses are ours, or trusted. Pure."""

from typing import Final
from urllib.parse import SplitResult, urlsplit

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def is_loopback(host: str) -> bool:
    """Whether a host, with or without a port, is this machine."""
    return _split(f"//{host}").hostname in _LOOPBACK


def is_trusted(url: str) -> bool:
    """Whether no one else can read what is sent there: TLS, or this machine."""
    split = _split(url)
    return bool(split.hostname) and (
        split.scheme == "https" or (split.scheme == "http" and split.hostname in _LOOPBACK)
    )


def is_same_origin(origin: str | None, fetch_site: str | None, *, host: str, public: str | None) -> bool:
    """Whether a browser sent the request from one of our pages.

    Args:
        origin: the header ``Origin``.
        fetch_site: the header ``Sec-Fetch-Site``, for requests without ``Origin``.
        host: the host name of the request.
        public: our public URL; None: not known.
    """
    if origin is None:
        return fetch_site == "same-origin"
    sender = _split(origin)
    ours = _split(public or "")
    if sender.scheme not in {"http", "https"} or not sender.netloc:
        return False
    if (sender.scheme, sender.netloc) == (ours.scheme, ours.netloc):
        return True
    return sender.netloc == host and host != ours.netloc


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
