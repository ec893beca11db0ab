"""Tests that train with Unsloth, in its own environment."""
