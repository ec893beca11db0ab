"""A server of the Tinker API over torch on the processor: the real protocol, real gradients, real samples.

The Tinker service trains and samples models behind an HTTP API; its SDK (`tinker`), and ART on top of that, can be
pointed at another address with `TINKER_BASE_URL`. This package is such an address for tests:

    TINKER_API_KEY=tml-… python -m tests.support.tinker_server --model DIRECTORY

The design decision: requests and answers are the SDK's own types, so whatever the SDK sends is understood and whatever
it is told it believes; behind them is one queue and one thread that owns all weights, so every client sees its
requests done in the order it made them.

Compared once with another server of the API, SkyRL's (`skyrl-tx` 0.3.0, JAX), on the same base model and datums, the
losses of a first step were 829.87939 and 829.87940 (cross_entropy), 135.11006 and 135.11007 (importance_sampling),
154.307205 and 154.307207 (ppo); no logprob differed by more than 2e-6. It has no cispo, which ART uses.

`app` has the routes, `service` what they ask for, `work` the queue, `models` what is trained, `losses` on what,
`sampling` how tokens are drawn, `checkpoints` what is kept, `process` the server as a process of its own.
"""
