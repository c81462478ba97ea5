"""Headings of a document in Markdown, as links name them."""

import re


def anchors(text: str) -> set[str]:
    """What follows the ``#`` of a link to each heading, as GitHub and GitLab make it."""
    without_fences = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", without_fences, flags=re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}
