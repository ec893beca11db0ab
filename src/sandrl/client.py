"""The Python client of `sandrl serve`: `ServiceClient` for any thread, `AsyncServiceClient` for an event loop.

Their episodes on tasks are `ServiceEpisode` and `AsyncEpisode`.
"""

from sandrl.remote.client import AsyncServiceClient, ServiceClient
from sandrl.remote.episodes import AsyncEpisode, ServiceEpisode

__all__ = ["AsyncEpisode", "AsyncServiceClient", "ServiceClient", "ServiceEpisode"]
