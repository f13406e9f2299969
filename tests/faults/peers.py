"""x-transformers, which scripts a function while it is imported, and so warns."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import x_transformers.x_transformers as x_transformers

__all__ = ["x_transformers"]
