"""``python -m spantap``: the command line (:mod:`proxy.__main__`)."""

from __future__ import annotations

import sys

from proxy.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
