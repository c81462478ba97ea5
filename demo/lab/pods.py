"""The pods that people create, as they would write them."""

from collections.abc import Mapping
from typing import Any, Final

from cluster import names
from demo.lab.nodes import A100, A6000, H200

Json = dict[str, Any]

WORK: Final = ("train", "finetune", "sweep", "eval", "render", "distill")
"""What jobs are called."""
FREE: Final = {H200.label: 8, A100.label: 2, A6000.label: 1}
"""GPUs of a model that nobody takes by himself, so that there is room for who tries it out."""

IMAGE: Final = "lab/train:1"
GRACE: Final = 30
"""Seconds that a training script takes at most to save its work when it is asked to end."""
SAVES_WITHIN: Final = 6
"""Seconds that it really takes."""
SHARER: Final = "explore"
"""What the names of pods with shares begin with, and a number."""
SHARERS: Final = 3
"""So many of them have a share of one GPU."""
SHARE: Final = 8192
"""MiB of each share."""
CLAIM_TEMPLATE: Final = "one-gpu"
"""The template of claims that each team has."""
CLAIMER: Final = "infer"
"""What the names of others' pods with claims begin with, and a number."""
NOTEBOOK: Final = "jupyter"
"""What the names of notebooks begin with."""


def job(name: str, gpus: int, *, model: str | None = None, seconds: float | None = None) -> Json:
    """A training job; with ``seconds`` its work is done after so long."""
    annotations = {names.MODEL: model} if model else {}
    return _pod(name, gpus, annotations, seconds=seconds)


def notebook(name: str, person: str) -> Json:
    """A notebook with a GPU, as JupyterHub creates it."""
    return _pod(name, 1, {names.HUB_USER: person}, labels={"component": "singleuser-server"})


def quarter(name: str) -> Json:
    """Interactive work on a quarter of a GPU, in the words of its user."""
    return _pod(name, 1, {}, share={names.GPU_MEMORY_PERCENTAGE: "25"})


def part(name: str, memory: int, *, model: str) -> Json:
    """Interactive work on so many MiB of a GPU."""
    return _pod(name, 1, {names.MODEL: model}, share={names.GPU_MEMORY: str(memory)})


def with_claim(name: str) -> Json:
    """A job that asks for one GPU by a claim (Dynamic Resource Allocation)."""
    pod = _pod(name, 0, {})
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": CLAIM_TEMPLATE}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return pod


def _pod(
    name: str,
    gpus: int,
    annotations: dict[str, str],
    *,
    labels: dict[str, str] | None = None,
    seconds: float | None = None,
    share: Mapping[str, str] | None = None,
) -> Json:
    amounts = {"cpu": str(4 * max(gpus, 1)), **(share or {})}
    if gpus:
        amounts[names.GPU_RESOURCE] = str(gpus)
    container: Json = {
        "name": "main",
        "image": IMAGE,
        "resources": {"limits": amounts, "requests": amounts},
        "env": [{"name": "ENDS_WITHIN", "value": str(SAVES_WITHIN)}],
    }
    if seconds is not None:
        container["args"] = [str(seconds)]
    return {
        "metadata": {"name": name, "annotations": annotations, "labels": labels or {}},
        "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE},
    }


def name_for(booking: str) -> str:
    """The name of the job that somebody runs on a booking."""
    return f"train-{booking.removeprefix('b-')}"
