"""Names of what is written for GPUs that are given by claims: objects, files and taints."""

from typing import Final

from cluster import names

RULE_PREFIX: Final = f"{names.PRODUCT}-"
"""DeviceTaintRules of ours are ``gpu-booking-<uid of the waiting pod>-<digest of the device>``."""
CONFLICT_RULE_PREFIX: Final = f"{RULE_PREFIX}conflict-"
"""Those for devices that were given to two claims are ``gpu-booking-conflict-<digest of the device>``."""
GIVEN_BACK: Final = f"{names.STATE_DOMAIN}/given-back"
"""On a Pod, by the reclaimer: its last claim whose devices it gave back, ``<name>@<resourceVersion>``."""
GIVEN_BACK_POLICY: Final = f"{names.PRODUCT}-given-back"
"""The policy by which the controller takes devices out of claims, and gives none, and its binding."""
CLAIMS_WEBHOOK: Final = f"claims.admission.{names.DOMAIN}"
"""The entry of our webhook configuration for new ResourceClaims."""
CLAIM_PODS_POLICY: Final = "gpu-booking-claim-pods"
"""The policy by which all pods with claims have our scheduler, and its binding."""
EXTENDED_POLICY: Final = "gpu-booking-extended-resources"
"""The policy by which pods that get a claim for an extended resource have our scheduler, and its binding."""
CLAIM_CDI_KIND: Final = f"{names.DOMAIN}/claim"
"""Kind of the devices in the CDI specification of a claim: ``gpu-booking.io/claim=<uid>-<device>``."""
CLAIM_CDI_PREFIX: Final = f"{names.DOMAIN}-claim-"
"""The CDI specification of a claim is this and its uid, in the node's folder of them."""
CLAIMS_FILE: Final = f"{names.PRODUCT}-prepared.json"
"""Beside the socket of the driver of claims, by the node agent: the claims that are prepared on the node."""
SLICE_PREFIX: Final = f"{names.PRODUCT}-"
"""A node agent's ResourceSlices are ``gpu-booking-<node>-<n>``."""
AGENT_CLAIMS_ROLE: Final = "gpu-booking-node-agent-claims"
"""ClusterRole of node agents that give GPUs by claims."""
SLICES_POLICY: Final = "gpu-booking-slices"
"""The policy that lets a node agent publish devices of its own node only, and its binding."""
IN_LINE: Final = f"{names.STATE_DOMAIN}/in-line"
"""On a Pod whose claims came after it, by the reclaimer, ``true``: it waits as those behind our gate do."""
UNHEALTHY_TAINT: Final = f"{names.DOMAIN}/unhealthy"
"""On a device of a ResourceSlice, by the node agent: it gets no new pods; the value is its state."""
CLASS_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Kubernetes' own prefix: with the name of a DeviceClass it is an extended resource that DRA satisfies."""


def may_be_by_claim(name: str) -> bool:
    """Whether Kubernetes may satisfy a resource name by a claim: an extended resource that is not ours.

    A name that this product advertises never counts, whatever a DeviceClass says: its GPUs are given by it.
    """
    if names.is_gpu_request(name) or name.startswith("requests.") or "/" not in name:
        return False
    return "kubernetes.io/" not in name or name.startswith(CLASS_RESOURCE_PREFIX)
