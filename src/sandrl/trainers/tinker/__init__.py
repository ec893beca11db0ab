"""A service of the Tinker API on torch: the SDK's own protocol, exact gradients and samples, one small model.

A Tinker service trains and samples models behind an HTTP API. Its SDK (`tinker`), ART and tinker-cookbook use the
address in `TINKER_BASE_URL`. `sandrl tinker serve` provides such an address, and `sandrl art train` starts a service
for its own run if neither a key nor an address is set. The service is for small models and experiments: one process
computes everything, on the processor or on one GPU.

Requests and answers are the SDK's own types, so the service accepts what the SDK sends and answers in the form that the
SDK parses. Behind the routes are one queue and one thread that owns all weights, so the requests of a client are
processed in the order in which the client made them.

In a comparison with SkyRL's service of the API (`skyrl-tx` 0.3.0, JAX), on the same base model and datums, the losses
of a first step were 829.87939 and 829.87940 (cross_entropy), 135.11006 and 135.11007 (importance_sampling), 154.307205
and 154.307207 (ppo); no logprob differed by more than 2e-6. Its successor `skyrl` 0.3.0, which has cispo, does not
replace this service: it trains LoRA alone, of Llama 3, Qwen 3 and DeepSeek 3, and asks for no key.

`app` has the routes, `bodies` what they read and send, `service` their operations, `work` the queue, `models` the
models in training, `losses` the loss functions, `sampling` the sampler, `checkpoints` the files, `server` the process.
Only `embedded`, `export` and `options` are imported by the rest of sandrl; the others import torch, and most of them
tinker. `export` saves checkpoints for other programs, without the SDK.
"""
