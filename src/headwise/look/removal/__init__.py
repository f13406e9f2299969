"""A model without some of its heads, and how much each head matters."""
