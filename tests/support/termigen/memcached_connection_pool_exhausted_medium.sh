#!/bin/bash
# The server that the application needs is left running for the verifier.
memcached -d -u nobody
sed -i 's/max_pool_size=2,.*/use_pooling=True, max_pool_size=20,/' /opt/app/processor.py
python3 /opt/app/processor.py
printf 'pool_size=20\nissue=pool of connections was too small\n' > /tmp/solution.txt
