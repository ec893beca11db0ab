"""Classes that derive from a framework's own: each module here needs its framework, and is imported on use only."""
