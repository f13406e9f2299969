"""Says of each call where it came from, and how many the module had made before in the same pass."""

from __future__ import annotations

from headwise.look.calls.multi_head import running_heads
from headwise.look.calls.place import Place
from headwise.look.calls.running import Running


class Places:
    """Counts the calls of each module, from 0 again in each pass of the model.

    >>> import torch
    >>> places = Places(Running(torch.nn.Identity()))
    >>> [places.of("", "fused").occurrence for _ in range(2)]
    [0, 1]
    """

    def __init__(self, running: Running) -> None:
        self.running = running
        self._in_pass = 0
        self._occurrences: dict[str, int] = {}

    def of(self, path: str, kind: str) -> Place:
        """The place of the next call that the module at ``path`` makes."""
        heads = running_heads.get()
        module = self.running.modules.get(path)
        if self._in_pass != self.running.passes:
            self._in_pass, self._occurrences = self.running.passes, {}
        occurrence = self._occurrences.get(path, 0)
        self._occurrences[path] = occurrence + 1
        kind = kind if heads is None else "multi_head_attention_forward"
        return Place(path, module, kind, heads, occurrence)
