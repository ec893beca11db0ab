"""Side-by-side measurements, each a command that prints a ratio against a baseline measured in the same run."""
