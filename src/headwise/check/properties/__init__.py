"""One file for each property: what holds, how it is tried, and what usually breaks it."""
