"""The scheduler extender: which node and which devices a GPU pod gets."""
