"""`sandrl serve`: true rewards over HTTP, for trainers that are not Python or not on this machine.

The modules, from the outside in: `server` (sockets, TLS, signals), `edge` (tokens, sizes and times of bodies, access
log), `app` (routes and the errors they answer), one module per kind of request (`scoring`, `execution`, `openrlhf`),
and what these share: `problems`, `replies`, `metrics`, `models`.
"""
