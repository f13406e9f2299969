"""What each head does: roles as labels on texts, and the evidence that a head looks where a role says."""
