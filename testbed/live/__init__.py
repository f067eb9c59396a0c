"""A page that shows a run or a script while it goes on."""
