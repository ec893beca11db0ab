"""What a client did wrong, told apart from what went wrong here."""

from __future__ import annotations


class Refused(Exception):
    """A request that cannot be done as it was asked; the SDK raises it with the category `user`."""


class NotThere(Refused):
    """It names a model, a checkpoint or a sampler that does not exist."""


class TakenAlready(Refused):
    """It would save a checkpoint under a name that has one; the SDK takes this for a save done twice."""
