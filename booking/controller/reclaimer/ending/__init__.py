"""What happens to pods when their booking ends: warnings, the end itself, and the pods' annotations."""
