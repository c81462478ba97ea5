"""Amounts of devices, in thousandths: a whole GPU is all of it, a share is less."""

from typing import Final

from cluster import names
from cluster.objects.inventory import Device

WHOLE: Final = 1000
"""All of one device."""

Amounts = dict[str, int]
"""UUID -> thousandths of that device."""


def resource_of(device: Device) -> str:
    """The resource under which a device is asked for.

    A MIG device's profile ``1g.5gb+me`` is ``nvidia.com/mig-1g.5gb.me`` as a resource (``+`` may not stand
    in a resource name). Source: NVIDIA k8s-device-plugin, strategy ``mixed``.
    """
    if device.profile is None:
        return names.GPU_RESOURCE
    return names.MIG_RESOURCE_PREFIX + device.profile.replace("+", ".")
