"""The Python client of `sandrl serve`: `ServiceClient` for any thread, `AsyncServiceClient` for an event loop.

Their episodes on tasks are `ServiceEpisode` and `AsyncServiceEpisode`.
"""

from sandrl.remote.client import AsyncServiceClient, ServiceClient
from sandrl.remote.episodes import AsyncServiceEpisode, ServiceEpisode

__all__ = ["AsyncServiceClient", "AsyncServiceEpisode", "ServiceClient", "ServiceEpisode"]
