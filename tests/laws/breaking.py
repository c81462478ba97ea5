"""Words for tests that break a law on purpose."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.laws.broken import LawBrokenError
from tests.laws.watcher import LawWatcher


@contextmanager
def breaks(laws: LawWatcher, law: str, words: str) -> Iterator[None]:
    """The write inside breaks this law: it raises at once, names earlier events, and is not forgotten."""
    with pytest.raises(LawBrokenError, match=words) as caught:
        yield
    assert caught.value.law == law
    assert any("LAW" in line for line in caught.value.history)
    assert len(caught.value.history) > 1, "the history says what led there"
    with pytest.raises(LawBrokenError) as again:
        laws.check()
    assert again.value is caught.value
