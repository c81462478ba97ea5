"""The administrator's policy about bookings."""
