"""Trained models that several rooms' tests read, opened once; and what the seeded faults come to."""

import pytest

from headwise.core import map_compiled
from headwise.models import open_text_model


@pytest.fixture(scope="module")
def fewest_scores():
    """Sends small maps, too, through the compiled pass; gives how many scores it really takes."""
    with pytest.MonkeyPatch.context() as patch:
        fewest = map_compiled._FEWEST_SCORES
        patch.setattr(map_compiled, "_FEWEST_SCORES", 0)
        yield fewest


@pytest.fixture(scope="session")
def smollm2():
    return open_text_model("smollm2", attention="eager")


def pytest_terminal_summary(terminalreporter):
    """How many seeded faults were caught, and how many sound modules raised an alarm."""
    found = {"seeded fault": {}, "sound module": {}}
    for report in [*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])]:
        for kind, seen in getattr(report, "user_properties", []):
            if kind in found:
                name, good = seen
                found[kind][name] = good and found[kind].get(name, True)
    faults, sound = found["seeded fault"].values(), found["sound module"].values()
    if faults or sound:
        alarms = len(sound) - sum(sound)
        terminalreporter.write_line(
            f"caught {sum(faults)} of {len(faults)} seeded faults, {alarms} alarms on {len(sound)} sound "
            "modules, float32 and bfloat16"
        )
