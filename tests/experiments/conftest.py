import pytest

from headwise.models import open_text_model


@pytest.fixture(scope="session")
def minilm():
    return open_text_model(attention="eager")
