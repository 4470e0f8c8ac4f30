"""A server that says why it cannot start, and ends."""

import sys

sys.stderr.write("Traceback: irrelevant\n")
sys.stderr.write("DATABASE_URL is not set\n")
sys.exit(1)
