"""The remote runtime: the sandbox service, through the SDK."""

from __future__ import annotations

from sandrl.addresses import check_address, without_credentials
from sandrl.events import Emit, ignore
from sandrl.sandboxes.providers.cwsandbox.client import SdkConnection
from sandrl.sandboxes.providers.protocol import Need, Packages
from sandrl.settings import RuntimeKind, Settings

BASE_URL = "https://api.cwsandbox.com"
IMAGE = "python:3.11"
CONCURRENCY = 32


class RemoteProvider:
    summary: str = "the sandbox service runs the sandboxes"
    needs: frozenset[Need] = frozenset({Need.SERVICE})

    def connect(
        self,
        settings: Settings,
        *,
        reason: str,
        image: str | None,
        packages: Packages,
        private_hosts: tuple[str, ...] = (),
        emit: Emit,
    ) -> SdkConnection:
        if packages != Packages():
            from sandrl.runtime.packages import requirements_of, requirements_of_problems

            asked, needed = requirements_of(packages.asked), requirements_of_problems(packages.needed)
            packages = Packages(tuple(map(str, asked)), tuple(map(str, needed)))
        if settings.base_url is not None:
            source = str(settings.base_url_source)
            check_address(settings.base_url, source, hint=f"unset {source} to use the default address, {BASE_URL}")
        address = settings.base_url or BASE_URL
        return SdkConnection(
            kind=RuntimeKind.REMOTE,
            reason=reason,
            address=address,
            image=image or IMAGE,
            is_local=False,
            token=settings.api_key,
            wandb_entity=settings.wandb_entity,
            suggested_concurrency=CONCURRENCY,
            has_site_packages=True,
            packages=packages,
            overlay=" ".join((*packages.asked, *packages.needed)),
            state_dir=settings.state_dir,
            way_out=f"check the address {without_credentials(address)}, or use --runtime local, which needs none",
        )

    def find(self, settings: Settings, *, reason: str, emit: Emit = ignore) -> SdkConnection | None:
        # The service is always there.
        return self.connect(settings, reason=reason, image=None, packages=Packages(), emit=lambda _: None)

    def absence(self, settings: Settings) -> str:
        raise AssertionError("the service is always there")


PROVIDER = RemoteProvider()
