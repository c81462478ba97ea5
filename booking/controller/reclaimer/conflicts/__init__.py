"""Devices that were given to two claims: nobody gets them until they are free, and who lost is replaced."""
