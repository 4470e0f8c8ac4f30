"""A server that starts, reads, and never answers; with `stubborn` it ignores polite endings too."""

import signal
import sys
import time

if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)
for _ in sys.stdin:
    pass
