"""A hand-written server that answers nothing before its file is there, or seconds have gone."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.mcp_servers import faulty

if __name__ == "__main__":
    what = sys.argv[1]
    if what.replace(".", "").isdigit():
        time.sleep(float(what))
    elif what == "empty":
        faulty.tools = list
    else:
        while not Path(what).exists():
            time.sleep(0.02)
    faulty.serve()
