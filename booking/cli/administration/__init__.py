"""The commands of ``kubectl gpu admin`` that change something, one file per subject."""
