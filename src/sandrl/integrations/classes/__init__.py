"""Classes whose bases are a framework's: each module here needs its framework, and is imported on use only."""
