"""Lists in pages: as on the real server, all pages show the state at the first one.

The token stands for the rest of that snapshot. After a compaction, and for the oldest of too many tokens, the
answer is 410: list again.
"""

import itertools
from collections import OrderedDict
from typing import Final

from cluster.fake.errors import refusal
from cluster.fake.selecting import selector_of
from cluster.fake.state import State
from cluster.fake.store import Store
from cluster.kube.errors import Request
from cluster.kube.interface import Page, Selection
from cluster.kube.resources import Resource, T

KEPT: Final = 100
"""Number of lists that can be continued."""
_PREFIX: Final = "page-"

_Rest = tuple[str, tuple[State, ...]]  # the list's resourceVersion, and what has not been read yet


class Pages:
    """Lists objects page by page with ``continue`` tokens; all pages show the state at the first one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rests: OrderedDict[str, _Rest] = OrderedDict()
        self._numbers = itertools.count(1)

    def page(
        self,
        request: Request,
        resource: Resource[T],
        selection: Selection,
        *,
        limit: int | None,
        continue_: str | None,
    ) -> Page[T]:
        """The first page, or the next one if ``continue_`` is given."""
        selector = selector_of(request, resource.plural, selection)
        if continue_:
            version, states = self._rest(request, continue_)
        else:
            version, states = str(self._store.version), self._store.select(resource.plural, selector)
        size = limit or len(states)
        return Page(
            items=tuple(state.typed(resource) for state in states[:size]),
            resource_version=version,
            continue_=self._keep((version, states[size:])) if states[size:] else None,
        )

    def forget(self) -> None:
        """Compact: no list can be continued."""
        self._rests.clear()

    def _keep(self, rest: _Rest) -> str:
        token = f"{_PREFIX}{next(self._numbers)}"
        self._rests[token] = rest
        if len(self._rests) > KEPT:
            self._rests.popitem(last=False)
        return token

    def _rest(self, request: Request, token: str) -> _Rest:
        if not token.startswith(_PREFIX):
            raise refusal(request, 400, "BadRequest", "continue key is not valid")
        if token not in self._rests:
            gone = "The provided continue parameter is too old to display a consistent list result."
            raise refusal(request, 410, "Expired", gone)
        return self._rests[token]
