"""A helper that starts and does nothing: python -m tests.emulation.backends.asleep CONFIG.json."""

import time

if __name__ == "__main__":
    time.sleep(60)
