import pytest

from headwise.experiments.inside import inspect_text
from headwise.models import open_text_model

TEXT = "The charge exceeded the refund, [said] the clerk: $5.\nNobody laughed."


@pytest.fixture(scope="session")
def fused():
    """The embedded model as the commands open it."""
    return open_text_model()


@pytest.fixture(scope="session")
def inspected(fused, tmp_path_factory):
    """An inspection of TEXT, saved."""
    return inspect_text(fused, TEXT, save=tmp_path_factory.mktemp("saved") / "recording")
