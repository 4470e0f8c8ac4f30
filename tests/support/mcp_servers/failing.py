"""A server that says why it cannot start, and ends."""

import sys

print("Traceback: irrelevant", file=sys.stderr)
print("DATABASE_URL is not set", file=sys.stderr)
sys.exit(1)
