"""Tasks of our own: Harbor's format, and the first one of Terminal-Bench, on one small image made of this machine."""
