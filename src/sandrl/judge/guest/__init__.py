"""Source shipped into sandboxes: files here import nothing but builtins and never import `sandrl`.

They are read as text by the judges, not imported, except by their tests. `descriptors.py` explains their style.
"""
