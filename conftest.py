"""What every test and every executed example can rely on."""

import pytest
import torch

torch.set_num_threads(1)  # the tensors are small: threads cost more than they bring


@pytest.fixture(autouse=True)
def _the_same_random_numbers(doctest_namespace: dict[str, object]) -> None:
    torch.manual_seed(0)
    doctest_namespace["torch"] = torch
