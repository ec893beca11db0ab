"""The gRPC services of `coreweave.sandbox.v1`, as far as the SDK uses them, over sandboxes of this machine."""
