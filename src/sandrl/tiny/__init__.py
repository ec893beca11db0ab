"""The tiny policy: a real model for the real trainer, made on the spot, with nothing downloaded."""

from sandrl.tiny.policy import copy_tiny_policy, find_tiny_policy, tiny_policy
from sandrl.tiny.recipe import Recipe

__all__ = ["Recipe", "copy_tiny_policy", "find_tiny_policy", "tiny_policy"]
