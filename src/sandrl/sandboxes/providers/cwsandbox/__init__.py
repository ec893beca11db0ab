"""The adapter of the `cwsandbox` SDK, which both the remote service and the daemon of the local runtime speak.

Nothing outside of this package imports the SDK to use it (the daemon serves its protocol), and none of its objects
leave it.
"""
