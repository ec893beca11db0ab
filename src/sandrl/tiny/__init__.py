"""The tiny policy: a small real model for real trainers, trained from scratch on this machine without downloads."""

from sandrl.tiny.policy import copy_tiny_policy, find_tiny_policy, tiny_policy
from sandrl.tiny.recipe import Recipe

__all__ = ["Recipe", "copy_tiny_policy", "find_tiny_policy", "tiny_policy"]
