"""The words for how a model is trained; a module of its own, because the command line needs them to show its help."""

from __future__ import annotations

from enum import StrEnum


class ArtBackendKind(StrEnum):
    """Where the model is trained: on a GPU of this machine, or by a Tinker service."""

    LOCAL = "local"
    TINKER = "tinker"


class ArtPolicy(StrEnum):
    """Who acts in the episodes: the model that is trained, or another one from which it learns."""

    TRAINED = "trained"
    TEACHER = "teacher"
