"""What is done before the product goes: nothing more is taken away, nobody is lost, nothing is left behind.

``python -m booking.uninstall`` is the chart's Job before ``helm uninstall`` deletes the release, and can be
run afterwards by hand. It may be stopped at any moment and run again.
"""
