"""``headwise check config:NAME`` for every text architecture that Hugging Face transformers knows.

    python benchmarks/check_architectures.py [NAME ...] > architectures.md

Each is built small with random weights and checked in a process of its own. The table is Markdown; what is
tried of none of them is left out of it.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from headwise.core import HeadwiseError
from headwise.experiments.check_apart import check_apart

TIMEOUT = 600  # seconds, on a machine that does other things too
PROCESSES = 2


def main(names):
    """Print a row for each name, then every failure in full."""
    names = names or known()
    failures = []
    print("| architecture | class | holds | fails | no (not claimed) | not checked |")
    print("|---|---|---|---|---|---|")
    with ThreadPoolExecutor(PROCESSES) as pool:
        for name, found in zip(names, pool.map(checked, names), strict=True):
            if isinstance(found, HeadwiseError):
                print(f"| {name} | not run: got {found.got}. {found.why} | | | | |", flush=True)
                continue
            print(row(name, found), flush=True)
            failures += [(name, outcome) for outcome in found.failures]
    for name, outcome in failures:
        report = outcome.report
        print(f"\n- **{name}, {outcome.name}**: {report.failing}. Tried: {report.tried}.")


def known():
    """The architectures that read text: as text to text, next token, or masked token."""
    from transformers.models.auto import modeling_auto as auto

    return sorted(
        {
            *auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
            *auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
            *auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        }
    )


def checked(name):
    """What the check gives, or why it gives nothing."""
    try:
        return check_apart(f"config:{name}", timeout=TIMEOUT)
    except HeadwiseError as error:
        return error


def row(name, found):
    """One line of the table."""
    by = {verdict: [] for verdict in ("holds", "FAILS", "no", "not checked")}
    for outcome in found.outcomes:
        if not outcome.name.endswith("compiled and exported"):
            by[outcome.verdict].append(outcome.name)
    others = [", ".join(by[verdict]) for verdict in ("FAILS", "no", "not checked")]
    return f"| {name} | {found.name} | {len(by['holds'])} | {' | '.join(others)} |"


if __name__ == "__main__":
    main(sys.argv[1:])
