"""Published evaluations, repeated: one module per paper, with its sweep, figures and claims."""
