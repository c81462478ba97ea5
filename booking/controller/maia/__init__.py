"""A replacement of MAIA's pod terminator for MAIA's own tools, for sites that migrate: off by default."""
