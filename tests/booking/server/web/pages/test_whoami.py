"""The page on which people see by which names they are known."""

from tests.booking.server.web.pages.site import Site


def test_the_page_names_the_labels_of_ones_notebooks_and_is_linked_from_every_page(site: Site) -> None:
    site.tokens.names["a.young-token"] = "a.young"
    page = site.see("/whoami", user="a.young").text
    assert "labels of your notebooks: a-2eyoung, a-young---" in page
    assert 'href="/whoami"' in site.see("/mine").text


def test_the_page_says_why_notebooks_are_not_ones_own(site: Site) -> None:
    site.tokens.names["MYoung-token"] = "MYoung"
    page = site.see("/whoami", user="MYoung").text
    assert "do not cover those notebooks" in page
    assert "not at all" in page
