import pytest

from headwise.models import open_model


@pytest.fixture(scope="session")
def minilm():
    return open_model()
