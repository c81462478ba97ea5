"""Answers are compressed for those who accept it, and their length does not tell what is in them."""

import gzip
import re
from pathlib import Path

import pytest

from tests.booking.server.web.pages.site import Site

DRAWN = re.compile(rb'value="[0-9a-f-]{32,}"')
"""A key that a form gets each time it is shown."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("address", ["/mine", "/now", "/why", "/static/page.css", "/api/v1/openapi.json"])
def test_pages_files_and_answers_are_compressed(site: Site, address: str) -> None:
    plain = site.see(address)
    small = site.see(address, headers={"Accept-Encoding": "br, gzip"})
    assert "Content-Encoding" not in plain.headers
    assert small.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in plain.headers["Vary"]
    assert DRAWN.sub(b"", gzip.decompress(small.data)) == DRAWN.sub(b"", plain.data)
    assert int(small.headers["Content-Length"]) == len(small.data) < len(plain.data) / 2


@pytest.mark.parametrize("accepted", ["", "br", "gzip;q=0", "identity"])
def test_nothing_is_compressed_that_its_reader_does_not_accept(site: Site, accepted: str) -> None:
    assert "Content-Encoding" not in site.see("/", headers={"Accept-Encoding": accepted}).headers


def test_the_same_page_has_many_lengths(site: Site) -> None:
    accept = {"Accept-Encoding": "gzip"}
    lengths = {len(site.see("/mine", headers=accept).data) for _ in range(20)}
    assert len(lengths) > 3
