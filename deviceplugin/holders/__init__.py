"""Who is on each device now: pod, user and booking, and how that is known."""

from deviceplugin.holders.holding import NOBODY, Holder, Look, by_device, holders, whose

__all__ = ["NOBODY", "Holder", "Look", "by_device", "holders", "whose"]
