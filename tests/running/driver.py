"""The toy evaluation as a driver of its own: `python driver.py ADDRESS OUT TROUBLE`."""

import logging
import sys
from pathlib import Path

from igdefense.running.ray import Ray
from running import toy

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with Ray(sys.argv[1]) as backend:
        toy.run(Path(sys.argv[2]), Path(sys.argv[3]), backend=backend)
