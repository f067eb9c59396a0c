"""The radio: propagation, error rates, airtime and the shared medium, without I/O."""
