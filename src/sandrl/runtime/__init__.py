"""The embedded local runtime: real, isolated sandboxes on this machine, behind the SDK's own protocol.

The unmodified `cwsandbox` SDK talks to a gRPC server of ours on 127.0.0.1, so that one code path serves a laptop
and the cloud. From the outside in:

- `daemon`    finds, starts and stops the per-user background process;
- `server/`   the gRPC services of `coreweave.sandbox.v1`, as the SDK uses them;
- `host/`     what the daemon does on the host: images, launchers, one object per sandbox;
- `guest/`    what runs below it: the fork server, and the agent that is process 1 of every sandbox.
"""
