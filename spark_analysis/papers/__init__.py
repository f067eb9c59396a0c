"""Published evaluations, repeated: one module a paper, with its sweep, figures and claims."""
