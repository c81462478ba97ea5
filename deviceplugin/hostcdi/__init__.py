"""CDI specifications of ``nvidia.com/gpu`` that the host has already: used first where they are fit."""
