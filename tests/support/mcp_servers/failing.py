"""A server that says why it cannot start, with its secret, and ends."""

import os
import sys

sys.stderr.write("Traceback: irrelevant\n")
sys.stderr.write(f"DATABASE_URL is not set, API_TOKEN is {os.environ.get('API_TOKEN')}\n")
sys.exit(1)
