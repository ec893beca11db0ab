"""The runtime podman: containers of Podman, by its Docker API, see `sandrl.sandboxes.providers.containers`."""

from sandrl.sandboxes.providers.containers import ContainersProvider
from sandrl.settings import RuntimeKind

PROVIDER = ContainersProvider(RuntimeKind.PODMAN)
