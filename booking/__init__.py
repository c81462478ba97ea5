"""Booking: the server (bookings, rules, REST, mirror) and the controller (admission, reclaimer).

Two processes, one package: ``server.py`` and ``controller.py`` are their composition roots.
"""
