"""Watches a model run: every attention call, by whatever way it is made, in the order of the calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.flex_attention import flex_attention as flex_operator
from torch.fx import GraphModule
from torch.overrides import TorchFunctionMode

from headwise.core.watched import is_in_pieces, watching
from headwise.look.calls.call import AttentionCall
from headwise.look.calls.change import Change, Spot, in_a_trace, refuse
from headwise.look.calls.coverage import Coverage
from headwise.look.calls.fused import FUSED, read_fused
from headwise.look.calls.handwritten import read_found
from headwise.look.calls.late import late_calls
from headwise.look.calls.missed import missed
from headwise.look.calls.multi_head import MULTI_HEAD, body, fast_path_was_open, heads_of_call
from headwise.look.calls.own import OWN, is_one_kernel_call, read_own
from headwise.look.calls.places import Places
from headwise.look.calls.plain import outside_transforms, unwrapped, wrapped
from headwise.look.calls.running import Running
from headwise.look.calls.trail import Found, Trail

_SDPA, _SDPA_BUILTIN, _SDPA_ATEN, _SDPA_DEFAULT = FUSED
_UNFLATTEN: Any = Tensor.unflatten
_FLEX = "flex_attention: no mask tensor"
_FAKE = "symbolic or fake tensors: nothing was computed"
_TRANSFORMED = "attention of headwise's own under torch.vmap or torch.func, but for plain calls of the kernel"


@contextmanager
def watch(
    model: nn.Module,
    on_call: Callable[[AttentionCall], object],
    *,
    verify: bool = False,
    change: Change | None = None,
) -> Iterator[Coverage]:
    """A block in which ``on_call`` gets every attention call of the model, as soon as it has been made.

    The model computes what it always does: only torch's native fast path for ``nn.TransformerEncoder`` steps
    aside, and the coverage then says so. Calls inside compiled code are handed over when the next plain call
    comes or when the block ends. ``verify`` recomputes each output from queries, keys and values and keeps
    the largest difference.

    ``change`` is for a model that shall not compute what it always does. It gets each call with its gradients
    and gives another output, ``batch heads query value_dim``, with which the model goes on, or None. Raises
    HeadwiseError where it asks for what cannot be done: in compiled code, under torch.vmap or torch.func, in
    a nested tensor, in a checkpoint that runs again, in a trace.

    Not seen, and named in the coverage as far as it can be told: TorchScript, other threads, flex_attention,
    kernels that are called directly.

    >>> layer = torch.nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    >>> x, calls = torch.randn(1, 3, 8), []
    >>> with watch(layer, calls.append, verify=True) as coverage:
    ...     output, weights = layer(x, x, x, average_attn_weights=False)
    >>> print(calls[0])
    call 0 in the model: 2 heads, 3 queries, 3 keys, multi_head_attention_forward
    >>> torch.allclose(calls[0].weights(), weights), coverage.calls, coverage.largest_difference < 1e-6
    (True, 1, True)
    """
    running = Running(model)
    watcher = _Watcher(running, on_call, Coverage(type(model).__name__), verify, change)
    try:
        with running.hooks(), watching(), watcher:
            yield watcher.coverage
    except BaseException:
        watcher.change = None  # one error is enough
        raise
    finally:
        watcher.end()


class _Watcher(TorchFunctionMode):
    """The mode. What runs while torch compiles is comparisons and a list: more would break compiling."""

    def __init__(
        self,
        running: Running,
        on_call: Callable[[AttentionCall], object],
        coverage: Coverage,
        verify: bool,
        change: Change | None,
    ) -> None:
        super().__init__()
        self.running, self.on_call, self.coverage, self.verify = running, on_call, coverage, verify
        self.change = change
        self.compiled: list[tuple[Any, ...]] = []
        self.trail = Trail()
        self.body = body()
        self.number, self.places = 0, Places(running)
        self.gave: set[str] = set()
        self.held: list[tuple[Any, ...]] = []
        self.give: Callable[[Callable[[], AttentionCall], Spot], Tensor] = self._give
        self.deliver: Callable[[str], None] = self._deliver
        if "torch._dynamo" in sys.modules:  # between compiled parts, what is ours must stay as it is
            plainly: Callable[..., Any] = torch.compiler.disable
            self.give, self.deliver = plainly(self._give), plainly(self._deliver)
        running.after_each = self._after_module

    def _after_module(self, path: str) -> None:
        if self.compiled or self.held:
            self.deliver(path)
        if self.trail.waiting and (path in self.running.attention or not self.running.stack):
            self.trail.drop(path)  # or scores would be kept that nobody needs

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        given = {} if kwargs is None else kwargs
        if torch.compiler.is_compiling():
            # torch cannot trace its own Tensor.unflatten under any mode
            output = torch.unflatten(*args, **given) if func is _UNFLATTEN else func(*args, **given)
            if func is _SDPA or func is _SDPA_BUILTIN or func is _SDPA_ATEN or func is _SDPA_DEFAULT:
                known = None if is_in_pieces() else given
                self.compiled.append((self.running.traced.path, args, known, output))
            elif func is flex_operator:
                self.compiled.append((self.running.traced.path, None, None, None))
            return output
        if func is MULTI_HEAD:
            return self._multi_head(args, given)
        if func is OWN:
            return self._own(args, given)
        output = func(*args, **given)
        if in_a_trace(changing=self.change is not None):
            return output
        if func is _SDPA or func is _SDPA_BUILTIN or func is _SDPA_ATEN or func is _SDPA_DEFAULT:
            made = sys._getframe(1).f_code.co_filename.startswith("<eval_with_key>")
            if made and (self.change is None or not isinstance(self.running.innermost, GraphModule)):
                self.held.append((self.running.path, args, given, output))  # a graph: compiled, or fx
            else:
                self._after_module("")
                output = self._fused(self.running.path, args, given, output)
        elif func is flex_operator:
            self.held.append((self.running.path, None, None, output))
        elif (found := self.trail.follow(func, args, given, output, self.running.path)) is not None:
            output = self._found(found, output, given.get("out"))
        return output

    def _multi_head(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        if fast_path_was_open(self.running.innermost, args):
            self.coverage.fast_path_off = True
        with heads_of_call(args, kwargs), self:
            return self.body(*args, **kwargs)

    def _own(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        path, transformed = self.running.path, wrapped(args)
        if transformed and is_one_kernel_call(args[0], args[1], kwargs):
            with watching(-1), self:  # by its pieces, which the kernel's rules read
                return OWN(*args, **kwargs)
        with watching(-1):
            output = OWN(*args, **kwargs)
        if transformed and self.change is not None:
            refuse(path or "the model", "It runs under torch.vmap or torch.func")
        if in_a_trace(changing=self.change is not None):
            return output
        if transformed or type(output).__name__ == "FakeTensor":
            self.gave.add(path)
            self.coverage.miss(_TRANSFORMED if transformed else _FAKE)
            return output
        self._after_module("")
        make = partial(read_own, args, kwargs, output)
        return self.give(lambda: make(self.places.of(path, "headwise"), self.number), Spot(output))

    def _fused(
        self,
        path: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,  # noqa: ANN401
        late: bool = False,
    ) -> Any:  # noqa: ANN401
        if not isinstance(output, Tensor) or type(output).__name__ == "FakeTensor":
            self.coverage.miss(_FAKE)
            return output
        given = [x for x in (*args, *kwargs.values(), output) if isinstance(x, Tensor)]
        with outside_transforms(given):
            spot = Spot(output, wrapped=wrapped(given), late=late)
            return self.give(
                lambda: read_fused(args, kwargs, output, self.places.of(path, "fused"), self.number), spot
            )

    def _found(self, found: Found, output: Tensor, into: Tensor | None) -> Tensor:
        step = found.step
        parts = [step.q, step.k, step.scores, found.v, found.output]
        spot = Spot(output, tuple(found.output.shape), found.order, wrapped=wrapped(parts), into=into)
        with outside_transforms(parts):
            step.q, step.k, step.scores, found.v, found.output = unwrapped(parts)  # type: ignore[assignment]
            return self.give(
                lambda: read_found(found, self.places.of(step.path, "softmax"), self.number), spot
            )

    def _give(self, make: Callable[[], AttentionCall], spot: Spot) -> Tensor:
        # our own steps must not be seen, by no watcher
        with torch._C.DisableTorchFunction(), torch.no_grad() if self.change is None else nullcontext():
            live = make()
            call = live.detached()
            self.number += 1
            self.gave.update(self.running.stack)
            self.gave.add(call.module)
            self.coverage.count(call)
            with torch.no_grad():
                if self.verify:
                    self.coverage.verify(call)
                self.on_call(call)
            changed = None if self.change is None else self.change(live)
            if changed is None:
                return spot.output
            self.coverage.changed += 1
            return spot.put(changed, call)

    def _deliver(self, outer: str) -> None:
        """Hand over the calls that compiled code has made inside the module ``outer``."""
        traced, held, self.compiled, self.held = self.compiled, self.held, [], []
        for path, args, kwargs, output in late_calls(traced, held, outer):
            if args is None:
                self.gave.add(path)
                self.coverage.miss(_FLEX)
            else:
                self._fused(path, args, kwargs, output, late=True)

    def end(self) -> None:
        """Hand over what is left, and say what was missed."""
        self.deliver("")
        self.trail.drop("")
        for path, reason in self.trail.lost:
            self.gave.add(path)
            self.coverage.miss(f"{path or 'the model'}: {reason}")
        for reason in missed(self.running, self.gave):
            self.coverage.miss(reason)
