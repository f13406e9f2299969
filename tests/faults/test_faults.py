"""Every seeded fault is caught by the property that should catch it, and no sound module fails anything."""

import importlib
import pkgutil

import pytest
import torch

import tests.faults

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

TABLES = [
    importlib.import_module(f"tests.faults.{info.name}")
    for info in pkgutil.iter_modules(tests.faults.__path__)
    if not info.name.startswith("test_")
]
FAULTS = {fault.name: fault for table in TABLES for fault in getattr(table, "FAULTS", [])}
SOUND = {sound.name: sound for table in TABLES for sound in getattr(table, "SOUND", [])}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FAULTS)
def test_a_seeded_fault_is_caught(name, dtype, record_property):
    fault = FAULTS[name]
    report = fault.check(DTYPES[dtype])
    caught = report.verdict == "fails" and report.name.replace(" ", "_") == fault.caught_by.replace(" ", "_")
    record_property("seeded fault", (name, caught))
    assert caught, report
    assert report.failing
    assert report.cause


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_module_raises_no_alarm(name, dtype, record_property):
    reports = SOUND[name].check(DTYPES[dtype])
    alarms = [str(report) for report in reports if not report.passed]
    record_property("sound module", (name, not alarms))
    assert reports
    assert not alarms, "\n".join(alarms)


def test_there_are_many_and_each_has_a_name_of_its_own():
    faults = [fault.name for table in TABLES for fault in getattr(table, "FAULTS", [])]
    sound = [sound.name for table in TABLES for sound in getattr(table, "SOUND", [])]
    assert len(faults) == len(set(faults)) >= 60
    assert len(sound) == len(set(sound)) >= 40
