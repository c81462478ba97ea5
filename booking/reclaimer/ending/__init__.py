"""What becomes of pods when their booking ends: warnings before, the end, and what stands on the pods."""
