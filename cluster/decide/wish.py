"""What a pod wants of GPUs, read once per decision; everything that decides about a pod starts here."""

from dataclasses import dataclass

from cluster.decide.reuse import demand
from cluster.objects.pods import ContainerNeed, Pod, container_needs, wished_models


@dataclass(frozen=True, slots=True)
class Wish:
    """A pod's needs and its wishes about them."""

    needs: tuple[ContainerNeed, ...]
    demand: dict[str, int]
    """Resource name -> devices that the pod holds at most at one time."""
    models: frozenset[str]
    """Models that the pod accepts, in label form; empty when any will do."""

    @property
    def models_text(self) -> str:
        """The wanted models for a sentence: always the same text for the same wish."""
        return " or ".join(sorted(self.models))


def wish_of(pod: Pod) -> Wish:
    """The pod's wish.

    Raises:
        QuantityError: a GPU amount that is no whole number (the API server refuses those).
    """
    needs = container_needs(pod)
    return Wish(needs=needs, demand=demand(needs), models=wished_models(pod))
