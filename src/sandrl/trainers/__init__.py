"""Training and evaluating policies on sandbox rewards."""
