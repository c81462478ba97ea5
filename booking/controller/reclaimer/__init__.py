"""The reclaimer: takes GPUs back for booked pods, ends pods with their booking, and lets bare pods come back.

A part of the controller; the leader runs it. Level-triggered: what is due is read from the API server's
objects in each pass, so a process may stop at any point and another continues.
"""
