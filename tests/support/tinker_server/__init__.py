"""Services of the Tinker API for tests: as the product's, with a record of all operations, and with faults.

    TINKER_API_KEY=tml-… python -m tests.support.tinker_server --model DIRECTORY

`process` starts one as a process of its own, `faults` has what no product needs.
"""
