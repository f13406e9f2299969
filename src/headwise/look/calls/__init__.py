"""Sees every attention call of a running model, whatever way it is made."""
