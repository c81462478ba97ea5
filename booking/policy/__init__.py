"""What an administrator decides about bookings."""
