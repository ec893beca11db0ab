#!/bin/bash
cat > /backup/recommendation.txt <<END
OPTIMIZATION=disable_compression
REASON=Most bytes are of types that do not compress; compression saves about 1%
END
