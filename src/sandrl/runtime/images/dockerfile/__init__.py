"""Dockerfiles: read into typed instructions, and refused as a whole if one of them is not supported.

No library is used: of those in Python, none reads here-documents, and the others wrap a parser that is written in Go.
"""
