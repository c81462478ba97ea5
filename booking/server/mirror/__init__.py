"""Keeps the Booking objects of the cluster equal to the booking database. Used by the booking server."""
