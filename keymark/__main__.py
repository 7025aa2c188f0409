"""`python -m keymark` is the command `keymark`."""

import sys

from keymark.cli import main

if __name__ == "__main__":
    sys.exit(main())
