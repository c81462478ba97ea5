"""The manifest of a pod that uses a booking, in the way in which its GPUs are given: for a shell. Pure."""

from typing import Final

from booking.server.records import Record
from cluster import names

_IMAGE: Final = "IMAGE"


def snippet(record: Record, resource: str, *, gpus: int, driver: str = names.DRA_DRIVER) -> str:
    """A command that creates such a pod.

    Args:
        record: the booking.
        resource: the resource under which pods request its model; the one of claims where claims give it.
        gpus: how many one pod can have.
        driver: the name of our driver of claims.
    """
    manifest = _claiming(record, gpus, driver) if resource == names.CLAIM_RESOURCE else ""
    manifest = manifest or _requesting(record, resource, gpus)
    where = f" --namespace {record.namespace}" if record.namespace else ""
    return f"kubectl create{where} -f - <<'END'\n{manifest}\nEND"


def _requesting(record: Record, resource: str, gpus: int) -> str:
    amounts = f"{resource}: {gpus}"
    if record.memory is not None:
        amounts += f"\n        {names.GPU_MEMORY}: {record.memory}"
    return f"""apiVersion: v1
kind: Pod
metadata:
  generateName: with-gpu-
  annotations:
    {names.MODEL}: {record.model}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: {_IMAGE}
    resources:
      limits:
        {amounts}"""


def _claiming(record: Record, gpus: int, driver: str) -> str:
    profile, name = names.mig_profile(record.model), f"for-{record.id}"
    kind = "mig" if profile else "gpu"
    share = f"\n          capacity: {{requests: {{memory: {record.memory}Mi}}}}" if record.memory else ""
    return f"""apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: {name}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: {kind}.nvidia.com
          count: {1 if share else gpus}{share}
          selectors:
          - cel:
              expression: {expression_of(record.model, driver)}
---
apiVersion: v1
kind: Pod
metadata:
  generateName: with-gpu-
spec:
  restartPolicy: Never
  resourceClaims:
  - name: gpu
    resourceClaimTemplateName: {name}
  containers:
  - name: main
    image: {_IMAGE}
    resources:
      claims:
      - name: gpu"""


def expression_of(model: str, driver: str) -> str:
    """What a claim says to get devices of a model: drivers' names of products have spaces, models none."""
    attributes = f"device.attributes['{driver}']"
    if profile := names.mig_profile(model):
        return f"{attributes}.profile == '{profile}'"
    bare = model.replace(names.CLAIMED_MODEL, "", 1)
    return f"{attributes}.productName.replace(' ', '-') == '{bare}'"
