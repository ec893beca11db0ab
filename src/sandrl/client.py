"""The client of `sandrl serve`, for programs."""

from sandrl.rewards.service import AsyncServiceClient, ServiceClient

__all__ = ["AsyncServiceClient", "ServiceClient"]
