"""Every map that can be compiled is, however small."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _compiled(fewest_scores):
    pass
