"""What ran and looks like attention, but could not be seen, and why."""

from __future__ import annotations

from collections.abc import Iterator

from headwise.look.calls.running import Running
from headwise.look.calls.trail import inside


def missed(running: Running, gave: set[str]) -> Iterator[str]:
    """What ran and looks like attention but gave no call, as reasons.

    >>> layer = torch.nn.MultiheadAttention(4, 1)
    >>> running = Running(layer)
    >>> running.ran[""] = None
    >>> list(missed(running, set()))
    ['the model (MultiheadAttention) ran and looks like attention, but made no call']
    """
    for path in running.scripts:
        if not any(path.startswith(f"{other}.") or (other == "" and path) for other in running.scripts):
            yield f"{path or 'the model'} is a ScriptModule, which runs outside Python"
    for path in running.elsewhere:
        if path in running.attention:
            yield f"{path or 'the model'} ran in another thread"
    ran = [path for path in running.ran if path in running.attention]
    if running.traced.ran:  # where hooks do not say what ran
        ran = [path for path in running.modules if path in running.attention]
    silent = [path for path in ran if not any(path == other or inside(other, path) for other in gave)]
    for path in silent:
        if any(inside(other, path) for other in silent if other != path) or path in running.scripts:
            continue
        name = f"{path or 'the model'} ({type(running.modules[path]).__name__})"
        if path in running.ran:
            yield f"{name} ran and looks like attention, but made no call"
        else:
            yield f"{name} looks like attention; if compiled code ran it, its calls cannot be seen there"
