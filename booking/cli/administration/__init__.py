"""The commands of ``kubectl gpu admin`` that change something, a file per subject."""
