"""The Python client of `sandrl serve`: `ServiceClient` for any thread, `AsyncServiceClient` for an event loop."""

from sandrl.remote.client import AsyncServiceClient, ServiceClient

__all__ = ["AsyncServiceClient", "ServiceClient"]
