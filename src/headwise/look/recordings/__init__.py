"""What every head does, as sums that add, and maps that can be opened again."""
