"""Booking: the server (bookings, rules, REST, mirror) and the controller (admission, reclaimer).

Two processes, one package: ``server/`` and ``controller/``, each with its composition root.
"""
