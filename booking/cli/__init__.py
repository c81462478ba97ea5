"""The command line: ``kubectl gpu`` and ``gpu-booking``. It asks the booking server's REST API."""
