"""The node agent beside another device plugin, which stays in charge of the GPUs: it observes and counts."""
