"""The kubelet of tests/deviceplugin."""

from tests.deviceplugin.conftest import kubelet

__all__ = ["kubelet"]
