"""A module that is cast, saved, copied, or built without memory stays what it is."""

import torch
from torch import nn

from headwise import MultiHeadAttention, Rotary, check
from headwise.check import Vectors, lifecycle


class Scaled(nn.Module):
    """Each number times one of its own, kept in one of several ways."""

    def __init__(self, how):
        super().__init__()
        value = torch.linspace(0.1, 7.0, 8) if how == "castable" else torch.randn(8)
        if how == "parameter":
            self.by = nn.Parameter(value)
        elif how == "plain":
            self.by = value
        else:
            self.register_buffer("by", value, persistent=how == "buffer")

    def forward(self, x):
        places = torch.arange(x.shape[1], dtype=self.by.dtype)[:, None]
        return x * (places * self.by).float().sin().to(x.dtype)


def test_a_right_module_passes():
    for dtype in (torch.float32, torch.bfloat16):
        report = lifecycle(lambda: MultiHeadAttention(8, heads=2, position=Rotary()), Vectors(8, dtype))
        assert report.passed
        assert report.tried == "cast, save, copy, meta"
    assert lifecycle(lambda: Scaled("parameter"), Vectors(8), steps=("save", "copy", "meta")).passed
    assert lifecycle(lambda: Scaled("buffer"), Vectors(8), steps=("save", "copy", "meta")).passed


def test_each_step_finds_its_fault():
    def failing(how, step):
        return lifecycle(lambda: Scaled(how), Vectors(8), steps=(step,)).failing

    assert failing("castable", "cast").startswith("while in bfloat16 the output is")
    assert failing("plain", "save").startswith("after save and load into a fresh instance the output is")
    assert failing("lost", "meta").startswith("after a start on the meta device the output is")


def test_a_buffer_that_a_cast_rounds_for_good():
    class Rounded(Scaled):
        def forward(self, x):
            if x.dtype != torch.float32:
                return x.new_tensor(0.0)  # refuses nothing, so only the way back can tell
            return super().forward(x)

    class Refuses(Scaled):
        def forward(self, x):
            if x.dtype != torch.float32:
                raise TypeError("float32 alone")
            return super().forward(x)

    report = lifecycle(lambda: Refuses("castable"), Vectors(8), steps=("cast",))
    assert report.failing.startswith("after a cast to bfloat16 and back the output is")
    assert lifecycle(lambda: Rounded("castable"), Vectors(8), steps=("cast",)).verdict == "not checked"
    report = lifecycle(lambda: Refuses("parameter"), Vectors(8), steps=("cast", "copy"))
    assert report.passed
    said = "cast (and back; while in bfloat16 it raises TypeError (float32 alone)), copy"
    assert report.tried == said
    checked = check.layer(Refuses("parameter"), inputs=Vectors(8), only="lifecycle")
    assert f"lifecycle: tried {said}." in " ".join(str(checked).split())


def test_copies_that_share():
    shared = nn.Parameter(torch.ones(8))

    class Sharing(nn.Module):
        def __init__(self):
            super().__init__()
            self.by = shared

        def __deepcopy__(self, memo):
            return Sharing()

        def forward(self, x):
            return x * self.by

    report = lifecycle(Sharing, Vectors(8), steps=("copy",))
    assert report.failing.startswith("a deep copy changes with the original")


def test_state_that_does_not_load():
    widths = iter((8, 9))
    report = lifecycle(lambda: nn.Linear(8, next(widths)), Vectors(8), steps=("save",))
    assert report.failing.startswith(
        "its state does not load into a fresh instance: RuntimeError (Error(s) in"
    )
    assert report.figure is None


def test_what_refuses_the_meta_device_says_so_aloud():
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.by = float(torch.ones(1))

        def forward(self, x):
            return x * self.by

    report = lifecycle(Reads, Vectors(8))
    assert report.passed
    assert "meta (refused: " in report.tried


def test_what_cannot_be_asked_is_not_checked():
    assert (
        lifecycle(lambda: 1 / 0, Vectors(8)).failing
        == "making one raises ZeroDivisionError (division by zero)"
    )
    assert lifecycle(lambda: 3, Vectors(8)).failing == "making one gives int where a module was asked for"
    assert lifecycle(lambda: nn.Linear(9, 9), Vectors(8)).verdict == "not checked"
