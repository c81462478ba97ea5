"""Preparations for the product's removal: evictions stop, comebacks are completed, and traces are removed.

``python -m booking.controller.uninstall`` is the chart's Job before ``helm uninstall`` deletes the release,
and can also be run by hand afterwards. It may be stopped at any moment and run again.
"""
