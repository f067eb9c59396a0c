"""Systems that people deploy, compared with each other in real time."""
