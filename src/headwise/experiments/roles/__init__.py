"""Which head does what in real models, with baselines and nulls."""
