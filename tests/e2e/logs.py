"""What our parts have written into their logs during a whole session of tests."""

from devcluster.product import Parts
from tests.fakes.loglines import troubles_in


def troubles_of(parts: Parts) -> list[str]:
    """Lines of any part's log that may not be there: no JSON, or a secret, or somebody's address.

    Beside what looks like a secret, every token that the parts were given is looked for.
    """
    tokens = {file.read_text().strip() for file in parts.folder.glob("*.token")}
    return [
        f"{name}: {problem}"
        for name, log in parts.logs().items()
        for problem in troubles_in(log.read_text(errors="replace"), tokens)
    ]
