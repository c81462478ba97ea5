"""The controller: admission and reclaimer."""
