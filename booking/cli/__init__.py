"""The command line: ``kubectl gpu`` and ``gpu-booking``. It calls the booking server's REST API."""
