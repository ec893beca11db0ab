"""The user's settings for downloads, for programs in sandboxes: package indexes, proxies and certificates.

They become variables and read-only files of a sandbox, all below `PLACE`, and are in nothing that is kept.
"""
