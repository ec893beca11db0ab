"""The user's settings for downloads are passed on to sandboxes for programs of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from sandrl.events import Emit, Warned
from sandrl.runtime.downloads.gathered import PLACE
from sandrl.runtime.downloads.settings import DownloadSettings, permitted_settings
from sandrl.runtime.network import Network
from sandrl.sandboxes.providers.protocol import Connection
from sandrl.sandboxes.shape import Shape

# Where a sandbox has one user alone, apt could not download as another one.
_APT, _AS_ROOT = f"{PLACE}/apt.conf", b'APT::Sandbox::User "root";\n'

Furnish = Callable[[Shape, Connection], tuple[Shape, Mapping[str, bytes]]]


def downloads(environment: Mapping[str, str], emit: Emit) -> Furnish:
    """What adds the settings of an environment to shapes; each warning is told once.

    It returns the shape with variables, where its own win, and contents of files by path, which all users of the
    sandbox must be able to read. On other machines, and without a network, nothing is added.
    """

    @cache
    def found(network: Network) -> DownloadSettings:
        settings = permitted_settings(environment, network)
        for warning in settings.warnings:
            if warning not in told:
                told.add(warning)
                emit(Warned(warning))
        return settings

    def furnish(shape: Shape, connection: Connection) -> tuple[Shape, Mapping[str, bytes]]:
        network = shape.network or connection.network
        if network is None or not (network.is_reachable and connection.is_local):
            return shape, {}
        settings = found(network)
        variables = {**settings.environment, "APT_CONFIG": _APT, **dict(shape.variables)}
        files = {**settings.files, _APT: settings.files.get(_APT, b"") + _AS_ROOT}
        return replace(shape, variables=tuple(variables.items())), files

    told: set[str] = set()
    return furnish
