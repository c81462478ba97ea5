"""Devices that were given to two claims: nobody else gets them until they are free."""
