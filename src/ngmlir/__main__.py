# SPDX-License-Identifier: Apache-2.0
"""`python -m ngmlir`: the umbrella command."""

import sys

from .tools.umbrella import main

if __name__ == "__main__":
    sys.exit(main())
