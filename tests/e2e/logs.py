"""What our parts have written into their logs during a whole session of tests."""

from devcluster.product import Parts
from tests.fakes.loglines import troubles_in


def troubles_of(parts: Parts) -> list[str]:
    """Lines of any part's log that may not be there: no JSON, or a secret, or somebody's address.

    They are searched for all that resembles a secret, and for every token that the parts were given.
    """
    tokens = {file.read_text().strip() for file in parts.folder.glob("*.token")}
    return [
        f"{name}: {problem}"
        for name, log in parts.logs().items()
        for problem in troubles_in(log.read_text(errors="replace"), tokens)
    ]
