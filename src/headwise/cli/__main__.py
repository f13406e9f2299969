"""``python -m headwise.cli``."""

import sys

from headwise.cli.program import main

sys.exit(main())
