"""Trained models that several rooms' tests read, opened once."""

import pytest

from headwise.models import open_text_model


@pytest.fixture(scope="session")
def smollm2():
    return open_text_model("smollm2", attention="eager")
