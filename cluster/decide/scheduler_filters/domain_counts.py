"""Numbers of pods per topology domain, also as they would be if some pods had left."""

from collections.abc import Iterable

Domain = tuple[str, str]
"""A topology key and a value of it."""


class DomainCounts:
    """How many pods there are in each domain. A pod may count more than once."""

    def __init__(self) -> None:
        self._counts: dict[Domain, int] = {}
        self._of: dict[str, list[Domain]] = {}
        self._total = 0
        self._least: int | None = None

    def add(self, uid: str, domains: Iterable[Domain]) -> None:
        """Count a pod in these domains."""
        for domain in domains:
            self._counts[domain] = self._counts.get(domain, 0) + 1
            self._of.setdefault(uid, []).append(domain)
            self._total += 1
        self._least = None

    def open(self, domain: Domain) -> None:
        """Add a domain, whether or not a pod is in it."""
        self._counts.setdefault(domain, 0)
        self._least = None

    def __len__(self) -> int:
        """How many domains there are."""
        return len(self._counts)

    def count(self, domain: Domain, without: frozenset[str]) -> int:
        """Pods in a domain, not counting those in ``without``."""
        return self._counts.get(domain, 0) - self._fewer(without).get(domain, 0)

    def total(self, without: frozenset[str]) -> int:
        """Pods in all domains, not counting those in ``without``."""
        return self._total - sum(self._fewer(without).values())

    def least(self, without: frozenset[str]) -> int:
        """Pods in the domain that has the fewest, not counting ``without``; 0 if there is no domain."""
        if self._least is None:
            self._least = min(self._counts.values(), default=0)
        fewer = self._fewer(without)
        # No domain has gained a pod: the least is the old one, or a domain that has lost some.
        return min([self._least, *(self._counts[domain] - lost for domain, lost in fewer.items())])

    def _fewer(self, uids: frozenset[str]) -> dict[Domain, int]:
        fewer: dict[Domain, int] = {}
        for uid in uids:
            for domain in self._of.get(uid, ()):
                fewer[domain] = fewer.get(domain, 0) + 1
        return fewer
