"""All scenes of one instant: where the bookings of each model are, over the nodes and pods that are known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from cluster.decide.witness.scene import Scene, scene
from cluster.decide.witness.supply import Instant, Share, share
from cluster.objects.blocks import Blocked
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What scenes are made of: values alone."""

    instant: Instant
    bookings: Mapping[str, Booking]
    blocks: Mapping[str, tuple[Blocked, ...]]
    """Node -> maintenance."""
    holds: Mapping[str, Hold]
    """Uid of a waiting pod -> what is kept for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the scene of one model is made of."""

    model: str
    devices: Mapping[str, int]
    """Node -> devices of the model that can be had."""
    pins: Mapping[str, Mapping[str, int]]
    """Booking of the model -> node -> devices that its pods have there, or that are kept there for them."""
    bookings: Mapping[str, Booking]
    blocks: Mapping[str, tuple[Blocked, ...]]


def scenes(stage: Stage, models: Iterable[str]) -> dict[str, Scene]:
    """The scenes of those of the models that need one: others have no place that is wrong for anybody."""
    shares = {name: share(view, stage.instant) for name, view in stage.instant.views.items()}
    made = {one.model: scene_in(one, stage.instant.now) for one in settings(stage, models, shares)}
    return {model: one for model, one in made.items() if one is not None}


def settings(stage: Stage, models: Iterable[str], shares: Mapping[str, Share]) -> list[Setting]:
    """What the scenes of some models are made of.

    Args:
        stage: the instant.
        models: of which.
        shares: what each node has then.
    """
    pins = _pins(shares)
    for uid, hold in stage.holds.items():
        if booking := stage.instant.cover.get(uid):
            theirs = pins.setdefault(booking.name, {})
            theirs[hold.node] = theirs.get(hold.node, 0) + len(hold.devices)
    return [
        Setting(
            model=model,
            devices={name: one.devices[model] for name, one in shares.items() if model in one.devices},
            pins=_of_model(model, pins, stage.bookings),
            bookings=stage.bookings,
            blocks=stage.blocks,
        )
        for model in models
    ]


def scene_in(setting: Setting, now: datetime, *, is_all: bool = False) -> Scene | None:
    """The scene; None for a model that needs none. See ``scene``."""
    return scene(
        setting.model,
        setting.bookings.values(),
        devices=setting.devices,
        blocks=setting.blocks,
        pins=setting.pins,
        now=now,
        is_all=is_all,
    )


def _of_model(
    model: str, pins: Mapping[str, Mapping[str, int]], bookings: Mapping[str, Booking]
) -> dict[str, Mapping[str, int]]:
    found = ((name, bookings.get(name)) for name in pins)
    return {name: pins[name] for name, booking in found if booking and booking.spec.model == model}


def _pins(shares: Mapping[str, Share]) -> dict[str, dict[str, int]]:
    pins: dict[str, dict[str, int]] = {}
    for name, one in shares.items():
        for booking, count in one.pins.items():
            pins.setdefault(booking, {})[name] = count
    return pins
