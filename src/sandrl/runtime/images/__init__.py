"""Images: root file systems that sandboxes start from, kept in a store of the user and unpacked once.

This package reads and writes files only. It starts no sandbox and runs no program of an image.
"""
