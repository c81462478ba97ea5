"""What a new pod's requests for GPUs mean: the dialects one after the other, and what none of them grants."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from booking.controller.admission.sharing_dialects import gpushare, hami, kai, namespace_default, nvidia
from booking.controller.admission.sharing_dialects.containers import (
    HAMI_AMOUNTS,
    PERCENTAGES,
    Json,
    ShareRefusedError,
    amounts,
    changed,
    containers,
    count,
    gpus,
    in_several,
    named,
    out_of_range,
    with_limits,
)
from booking.wording import quoted
from cluster import names

Dialect = Literal["hami", "gpushare", "kai", "nvidia"]
DIALECTS: Final[tuple[Dialect, ...]] = ("hami", "gpushare", "kai", "nvidia")
MPS: Final = "mps"
WHOLE: Final = "whole"
"""``gpu-booking.io/sharing`` of a pod that takes no part in its namespace's default."""
_ALL: Final = 100
"""Percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Which spellings of a share are understood, and what is left to an installation in them."""

    dialects: tuple[Dialect, ...] = DIALECTS
    gpushare_unit: gpushare.Unit = "GiB"
    default_percentage: int = 25
    """Of a GPU's memory, for a share without an amount."""
    by_annotation: bool = False
    """Whether containers are told by an annotation which GPUs their shares are of, and how they see them: on
    nodes with another device plugin nobody else tells them."""
    runtime_class: str = ""
    """RuntimeClass of pods with shares that name none, then; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A pod whose shares are container limits, and nothing else."""

    pod: Json
    replaced: dict[str, dict[str, str]] = field(default_factory=dict)
    """Container -> the limits in whose place it has shares."""
    warnings: tuple[str, ...] = ()


def asks_in_any_words(pod: Json) -> bool:
    """Whether a pod names GPUs, amounts of them, or KAI's annotations."""
    named_ones = (name for one in containers(pod["spec"]) for name in named(one))
    return any(map(names.is_gpu_request, named_ones)) or kai.is_spoken(
        pod["metadata"].get("annotations") or {}
    )


def translated(
    pod: Json, sharing: Sharing, *, default_share: str | None, models: Callable[[], Iterable[str]]
) -> Translation:
    """The pod with shares as container limits.

    Args:
        pod: as its creator sent it, without what a LimitRange has filled in.
        sharing: the settings.
        default_share: what the pod's namespace says about plain GPUs.
        models: those that the cluster has; called only for HAMi's parts of names.

    Raises:
        ShareRefusedError: it asks for shares in a way that cannot be granted.
    """
    annotations = dict(pod["metadata"].get("annotations") or {})
    spec, spoken = pod["spec"], sharing.dialects
    _check_memory(spec, spoken)
    if "kai" in spoken:
        spec = kai.translated(spec, annotations)
    if "gpushare" in spoken:
        spec = gpushare.translated(spec, sharing.gpushare_unit)
    if "hami" in spoken:
        spec = hami.translated(spec)
    spec, warnings = _by_default(spec, annotations, default_share)
    if "nvidia" in spoken:
        spec = nvidia.translated(spec, sharing.default_percentage)
    spec = changed(spec, _whole)
    check(spec)
    _check_mode(spec, annotations)
    if "hami" in spoken and any(key in annotations for key in hami.KEYS):
        annotations |= hami.selectors(annotations, models())
    pairs = zip(containers(pod["spec"]), containers(spec), strict=True)
    replaced = {before.get("name", ""): gone for before, after in pairs if (gone := _gone(before, after))}
    metadata = {**pod["metadata"], "annotations": annotations} if annotations else pod["metadata"]
    return Translation(
        pod={**pod, "metadata": metadata, "spec": spec}, replaced=replaced, warnings=tuple(warnings)
    )


def check(spec: Json) -> None:
    """Refuse what no share can be together with.

    Raises:
        ShareRefusedError: the pod has shares, and whole GPUs or MIG devices, or a way around every limit.
    """
    shares = [one for one in containers(spec) if names.SHARED_RESOURCE in gpus(one)]
    others = [(one, name) for one in containers(spec) for name in gpus(one) if name != names.SHARED_RESOURCE]
    for one, name in others:
        if shares or (name != names.GPU_RESOURCE and amounts(one, HAMI_AMOUNTS)):
            share = shares[0] if shares else one
            raise ShareRefusedError(
                f"Container {share.get('name', '')} asks for a share of a GPU and container"
                f" {one.get('name', '')} for {name}: a pod has shares, or whole GPUs and MIG devices, so"
                " make two pods of it."
            )
    escape = _escape(spec) if shares else None
    if escape:
        raise ShareRefusedError(
            f"The pod asks for a share of a GPU and has {escape}, which no limit of a share holds: leave that"
            " out, or ask for a whole GPU."
        )


def _check_mode(spec: Json, annotations: Json) -> None:
    """Refuse shares of several GPUs in one container under MPS: a process has one control daemon."""
    if (annotations.get(names.SHARING) or "").strip() == MPS and (one := in_several(spec)):
        raise ShareRefusedError(
            f"Container {one.get('name', '')} asks for shares of {gpus(one)[names.SHARED_RESOURCE]} GPUs,"
            f" and the pod has {names.SHARING}: {MPS}, which gives a container a share of one GPU: ask for"
            " one, or leave the annotation out."
        )


def check_zeros(spec: Json, sharing: Sharing) -> None:
    """Refuse shares of nothing; a container that asks for no GPU may say 0 of everything.

    Args:
        spec: as it came: what a LimitRange has filled in is 0 later.
        sharing: the settings.

    Raises:
        ShareRefusedError: a container asks for GPUs, and for an amount of 0.
    """
    for one in containers(spec):
        known = _known(one, sharing.dialects)
        given = amounts(one, known)
        zero = next((name for name in known if name in named(one) and name not in given), None)
        if zero and (given or gpus(one)):
            raise out_of_range(one, zero)


def _check_memory(spec: Json, spoken: Iterable[Dialect]) -> None:
    """Refuse amounts that are out of range, or say two things."""
    for one in containers(spec):
        given = amounts(one, _known(one, spoken))
        if {names.GPU_MEMORY, names.GPU_MEMORY_PERCENTAGE} <= given.keys():
            raise ShareRefusedError(
                f"Container {one.get('name', '')} asks for {names.GPU_MEMORY} and"
                f" {names.GPU_MEMORY_PERCENTAGE}: name the memory of its share once."
            )


def _known(container: Json, spoken: Iterable[Dialect]) -> tuple[str, ...]:
    """The amounts that mean something in a container."""
    is_share = names.SHARED_RESOURCE in gpus(container)
    ours = HAMI_AMOUNTS if is_share or "hami" in spoken else ()
    return (*ours, *([names.ALIYUN_MEMORY] if "gpushare" in spoken else ()))


def _by_default(spec: Json, annotations: dict[str, str], default_share: str | None) -> tuple[Json, list[str]]:
    """The spec by the namespace's default, and what its creator is told of it."""
    if default_share is None or (annotations.get(names.SHARING) or "").strip() == WHOLE:
        return spec, []
    requested = {resource for one in containers(spec) for resource in gpus(one)}
    if names.GPU_RESOURCE not in requested or requested - {names.GPU_RESOURCE, names.SHARED_RESOURCE}:
        return spec, []
    default = namespace_default.amount_in(default_share)
    if default is None:
        unread = (
            f"{names.DEFAULT_SHARE} of this namespace is {quoted(default_share)}, which is neither a"
            " percentage such as 25% nor an amount such as 8Gi: ignored, GPUs are whole."
        )
        return spec, [unread]
    if _escape(spec):
        return spec, []
    after = namespace_default.translated(spec, default)
    if after == spec:
        return spec, []
    warning = (
        f"Each {names.GPU_RESOURCE} of this pod is a share of {default_share.strip()} of a GPU, as its"
        f" namespace says: the annotation {names.SHARING}: {WHOLE} gives it whole GPUs."
    )
    return after, [warning]


def _whole(container: Json) -> Json:
    """A share of all the memory or all the compute is a whole GPU."""
    slots = gpus(container).get(names.SHARED_RESOURCE)
    given = amounts(container, HAMI_AMOUNTS)
    if not slots or _ALL not in {given.get(name) for name in PERCENTAGES}:
        return container
    whole = slots + count(container, names.GPU_RESOURCE)
    without = (names.SHARED_RESOURCE, *names.GPU_AMOUNTS)
    return with_limits(container, {names.GPU_RESOURCE: whole}, without=without)


def _escape(spec: Json) -> str | None:
    """What lets a container reach other processes or devices whatever its limits are."""
    for key in ("hostPID", "hostIPC"):
        if spec.get(key):
            return key
    privileged = (one for one in containers(spec) if (one.get("securityContext") or {}).get("privileged"))
    first = next(privileged, None)
    return f"the privileged container {first.get('name', '')}" if first else None


def _gone(before: Json, after: Json) -> dict[str, str]:
    """The GPU limits that a container has no more."""
    kept = named(after)
    return {k: v for k, v in named(before).items() if names.is_gpu_request(k) and k not in kept}
