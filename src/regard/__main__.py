"""`python -m regard …` is `regard …` for machines where scripts are not on the path."""

import sys

from regard.cli import main

sys.exit(main())
