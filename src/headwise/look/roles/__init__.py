"""Roles: small definitions of what a head may do, read from its attention map."""
