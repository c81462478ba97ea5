"""Who holds and wants GPUs without a booking: as the controller decides and the booking server shows."""
