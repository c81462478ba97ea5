"""All placement checks of one instant: where each model's bookings are, over the known nodes and pods."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from cluster.decide.booking_plan.placement_check import PlacementCheck, placement_check
from cluster.decide.booking_plan.supply import NodeSupply, SupplySnapshot, node_supply
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold
from cluster.objects.maintenance import MaintenanceBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """The inputs of placement checks: plain values."""

    instant: SupplySnapshot
    bookings: Mapping[str, Booking]
    blocks: Mapping[str, tuple[MaintenanceBlock, ...]]
    """Node -> maintenance."""
    holds: Mapping[str, Hold]
    """Uid of a waiting pod -> what is kept for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInputs:
    """The inputs of one model's check."""

    model: str
    devices: Mapping[str, int]
    """Node -> devices of the model that can be had."""
    pins: Mapping[str, Mapping[str, int]]
    """Booking of the model -> node -> devices that its pods have there, or that are kept there for them."""
    bookings: Mapping[str, Booking]
    blocks: Mapping[str, tuple[MaintenanceBlock, ...]]


def placement_checks(inputs: PlanInputs, models: Iterable[str]) -> dict[str, PlacementCheck]:
    """The checks of those of the models that need one: in others no place is wrong for any booking."""
    supplies = {name: node_supply(view, inputs.instant) for name, view in inputs.instant.views.items()}
    made = {one.model: check_of(one, inputs.instant.now) for one in model_inputs(inputs, models, supplies)}
    return {model: one for model, one in made.items() if one is not None}


def model_inputs(
    inputs: PlanInputs, models: Iterable[str], supplies: Mapping[str, NodeSupply]
) -> list[ModelInputs]:
    """The inputs of the checks of some models.

    Args:
        inputs: the instant.
        models: of which.
        supplies: what each node has then.
    """
    pins = _pins(supplies)
    for uid, hold in inputs.holds.items():
        if booking := inputs.instant.cover.get(uid):
            theirs = pins.setdefault(booking.name, {})
            theirs[hold.node] = theirs.get(hold.node, 0) + len(hold.devices)
    return [
        ModelInputs(
            model=model,
            devices={name: one.devices[model] for name, one in supplies.items() if model in one.devices},
            pins=_of_model(model, pins, inputs.bookings),
            bookings=inputs.bookings,
            blocks=inputs.blocks,
        )
        for model in models
    ]


def check_of(setting: ModelInputs, now: datetime, *, is_all: bool = False) -> PlacementCheck | None:
    """The check; None for a model that needs none. See ``placement_check``."""
    return placement_check(
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


def _pins(supplies: Mapping[str, NodeSupply]) -> dict[str, dict[str, int]]:
    pins: dict[str, dict[str, int]] = {}
    for name, one in supplies.items():
        for booking, count in one.pins.items():
            pins.setdefault(booking, {})[name] = count
    return pins
