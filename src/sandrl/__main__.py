"""`python -m sandrl` is the `sandrl` command, for machines where the script is not on PATH."""

import sys

from sandrl.cli.entry import main

sys.exit(main())
