"""The runtime docker: containers of a Docker daemon, see `sandrl.sandboxes.providers.containers`."""

from sandrl.sandboxes.providers.containers import ContainersProvider
from sandrl.settings import RuntimeKind

PROVIDER = ContainersProvider(RuntimeKind.DOCKER)
