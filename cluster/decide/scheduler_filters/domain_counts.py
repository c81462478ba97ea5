"""Pods counted by where they are, and counted again as if some of them had left."""

from collections.abc import Iterable

Domain = tuple[str, str]
"""A topology key and a node's value of it."""


class DomainCounts:
    """How many pods there are in each domain. A pod may count more than once."""

    def __init__(self) -> None:
        self._counts: dict[Domain, int] = {}
        self._of: dict[str, list[Domain]] = {}
        self._total = 0
        self._least: int | None = None

    def add(self, uid: str, domains: Iterable[Domain]) -> None:
        """A pod, and where it counts."""
        for domain in domains:
            self._counts[domain] = self._counts.get(domain, 0) + 1
            self._of.setdefault(uid, []).append(domain)
            self._total += 1
        self._least = None

    def open(self, domain: Domain) -> None:
        """There is such a domain, whether or not a pod is in it."""
        self._counts.setdefault(domain, 0)
        self._least = None

    def __len__(self) -> int:
        """How many domains there are."""
        return len(self._counts)

    def count(self, domain: Domain, without: frozenset[str]) -> int:
        """Pods in a domain, these not counted."""
        return self._counts.get(domain, 0) - self._fewer(without).get(domain, 0)

    def total(self, without: frozenset[str]) -> int:
        """Pods in all domains, these not counted."""
        return self._total - sum(self._fewer(without).values())

    def least(self, without: frozenset[str]) -> int:
        """Pods in the domain that has the fewest, these not counted; 0 where there is no domain."""
        if self._least is None:
            self._least = min(self._counts.values(), default=0)
        fewer = self._fewer(without)
        # None can have got more: the least is the old one, or one that has lost some.
        return min([self._least, *(self._counts[domain] - lost for domain, lost in fewer.items())])

    def _fewer(self, uids: frozenset[str]) -> dict[Domain, int]:
        fewer: dict[Domain, int] = {}
        for uid in uids:
            for domain in self._of.get(uid, ()):
                fewer[domain] = fewer.get(domain, 0) + 1
        return fewer
