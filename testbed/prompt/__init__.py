"""The prompt of a scenario's run; what it has in common with that of scripts is in `emulation`."""
