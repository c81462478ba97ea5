"""Names of what is written for GPUs that are given by claims: objects, files and taints."""

from typing import Final

from cluster import names

RULE_PREFIX: Final = f"{names.PRODUCT}-"
"""DeviceTaintRules of ours are ``gpu-booking-<uid of the waiting pod>-<digest of the device>``."""
CONFLICT_RULE_PREFIX: Final = f"{RULE_PREFIX}conflict-"
"""Those for devices that were given to two claims are ``gpu-booking-conflict-<digest of the device>``."""
CLAIMS_WEBHOOK: Final = f"claims.admission.{names.DOMAIN}"
"""The entry of our webhook configuration for new ResourceClaims."""
CLAIM_PODS_POLICY: Final = "gpu-booking-claim-pods"
"""The policy by which all pods with claims have our scheduler, and its binding."""
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
UNHEALTHY_TAINT: Final = f"{names.DOMAIN}/unhealthy"
"""On a device of a ResourceSlice, by the node agent: it gets no new pods; the value is its state."""
