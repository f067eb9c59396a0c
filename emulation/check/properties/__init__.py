"""What must hold of every run of `check`: one file a property."""
