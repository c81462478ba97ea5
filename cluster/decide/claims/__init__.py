"""What ResourceClaims ask for, and which devices would do: pure readers, for plans and cover."""
