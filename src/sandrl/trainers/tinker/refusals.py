"""Errors of a client's request, as opposed to errors of the service."""

from __future__ import annotations


class Refused(Exception):
    """A request that cannot be done as it was made; the SDK raises it with the category `user`."""


class NotThere(Refused):
    """The request names a model, a checkpoint or a sampler that does not exist."""


class TakenAlready(Refused):
    """The request would save a checkpoint under a name that is in use; the SDK takes this for a save done twice."""


class Busy(Refused):
    """The queue is full; the SDK sends the request again later."""
