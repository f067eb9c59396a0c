"""What backends have in common whose runs keep the time of the clock on the wall."""
