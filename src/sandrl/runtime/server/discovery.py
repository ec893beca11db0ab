"""`coreweave.sandbox.v1.DiscoveryService`: the one runner, which is this machine."""

from __future__ import annotations

import os
import platform
import time
from typing import Any

import grpc
from cwsandbox._proto import discovery_pb2 as pb
from cwsandbox._proto import discovery_pb2_grpc, sandbox_pb2

from sandrl.runtime.server import faults
from sandrl.runtime.server.sandboxes import SandboxManager

ORGANIZATION_ID = "local"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class DiscoveryService(discovery_pb2_grpc.DiscoveryServiceServicer):
    """Answers which runners there are."""

    def __init__(self, manager: SandboxManager) -> None:
        self._manager = manager
        self._since = time.time()

    def _runner(self, view: pb.RunnerView) -> pb.AvailableRunner:
        architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
        processors = len(os.sched_getaffinity(0))
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        runner = pb.AvailableRunner(
            runner_id=self._manager.runner_id,
            runner_group_id="local",
            organization_id=ORGANIZATION_ID,
            tags=["local"],
            healthy=True,
            capabilities=pb.RunnerCapabilitySummary(
                max_cpu_millicores=processors * 1000,
                max_memory_bytes=os.sysconf("SC_PHYS_PAGES") * page_bytes,
                supported_architectures=[architecture],
                supported_service_visibilities=[sandbox_pb2.VISIBILITY_PRIVATE],
            ),
        )
        runner.connected_at.FromNanoseconds(int(self._since * 1e9))
        if view == pb.RUNNER_VIEW_FULL:
            runner.resources.available_cpu_millicores = processors * 1000
            runner.resources.available_memory_bytes = os.sysconf("SC_AVPHYS_PAGES") * page_bytes
            runner.resources.running_sandboxes = len(self._manager.registry.living())
        return runner

    async def ListAvailableRunners(
        self, request: pb.ListAvailableRunnersRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.ListAvailableRunnersResponse:
        runner = self._runner(request.view)
        visibilities = (sandbox_pb2.VISIBILITY_UNSPECIFIED, sandbox_pb2.VISIBILITY_PRIVATE)
        wanted = (
            request.runner_group_id in ("", runner.runner_group_id)
            and not request.gpu_type
            and request.architecture in ("", *runner.capabilities.supported_architectures)
            and request.service_visibility in visibilities
        )
        return pb.ListAvailableRunnersResponse(runners=[runner] if wanted else [])

    async def GetAvailableRunner(
        self, request: pb.GetAvailableRunnerRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.AvailableRunner:
        if request.runner_id != self._manager.runner_id or request.organization_id != ORGANIZATION_ID:
            fault = faults.Fault(
                grpc.StatusCode.NOT_FOUND,
                f"runner {request.runner_id!r} not found",
                reason="CWSANDBOX_RUNNER_NOT_FOUND",
            )
            await fault.abort(context)
        return self._runner(request.view)
