"""Checks a target in a process of its own, which can be stopped: foreign code may hang, print or crash.

This process only waits and reads, and imports no PyTorch: the other one has to anyway.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from headwise.check.checked import Checked, from_dict
from headwise.errors import HeadwiseError

TIMEOUT = 120  # seconds
GRACE = 5


def check_apart(
    target: str,
    *,
    expect: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
    timeout: int = TIMEOUT,
    waiting: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Checked:
    """Every property of what the target names, found out in another process within ``timeout`` seconds.

    ``waiting`` makes the context in which this one waits, once the other has started.

    Raises HeadwiseError, in one line, for a target that cannot be opened or called, that takes longer, or
    that ends the process.
    """
    if timeout < 1:
        raise _no_time(timeout)
    with tempfile.TemporaryDirectory() as folder:
        answer, log = Path(folder) / "answer.json", Path(folder) / "log.txt"
        question = json.dumps({"target": target, "expect": expect, "only": only, "timeout": timeout})
        with log.open("wb") as heard:
            process = subprocess.Popen(
                [sys.executable, "-m", "headwise.experiments.check_apart", str(answer), question],
                stdin=subprocess.DEVNULL,
                stdout=heard,
                stderr=heard,
                start_new_session=True,
            )
            try:
                with waiting():
                    process.wait(timeout)
            except subprocess.TimeoutExpired as error:
                raise _bad(target, f"checked within {timeout} s", "no answer", "It was stopped") from error
            finally:
                _stop(process)
        if not answer.exists():
            raise _bad(target, "code that leaves the process running", _end(process.returncode), _last(log))
        return read_answer(json.loads(answer.read_text()))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the process with everything it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def read_answer(answer: dict[str, Any]) -> Checked:
    """What the other process found; its refusal is raised here."""
    if "error" in answer:
        raise HeadwiseError(**answer["error"])
    return from_dict(answer["checked"])


def _end(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _last(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return f"Its last line is {lines[-1][:200].rstrip('.')!r}" if lines else "It said nothing"


def _bad(target: str, expected: str, got: str, why: str) -> HeadwiseError:
    return HeadwiseError(
        who="check",
        what=f"the target {target!r}",
        expected=expected,
        got=got,
        why=why,
        do="Make it smaller, give it longer with --timeout, or check some properties with --only",
    )


def _no_time(timeout: int) -> HeadwiseError:
    return HeadwiseError(
        who="check",
        what="timeout",
        expected="a whole number of seconds, at least 1",
        got=repr(timeout),
        why="A target that takes longer is stopped",
        do="Use 1 or more",
    )


def main(answer: str, question: str) -> None:
    """What the other process does: check, and write the outcome to a file."""
    asked = json.loads(question)
    if hasattr(signal, "alarm"):  # whoever was to stop this process may be gone by then
        signal.alarm(asked["timeout"] + GRACE)
    from headwise.experiments.check_target import check_target

    try:
        found: dict[str, Any] = {
            "checked": check_target(asked["target"], expect=asked["expect"], only=asked["only"]).to_dict()
        }
    except HeadwiseError as error:
        parts = ("who", "what", "expected", "got", "why", "do")
        found = {"error": {part: getattr(error, part) for part in parts}}
    Path(answer).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # a thread that the target left behind is not waited for
