"""What MAIA's own tools find instead of its pod terminator, for sites that change over: off by default."""
