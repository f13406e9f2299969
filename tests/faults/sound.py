"""What the sound tables share: the properties that any sequence function, and any padded one, must have."""

from headwise.check import batch, history, left_padding, pad_content, right_padding


def padding(f, inputs, depth=1, left=True):
    sides = (right_padding, left_padding) if left else (right_padding,)
    return [*(side(f, inputs, lengths=(1, 2, 6), depth=depth) for side in sides), pad_content(f, inputs)]


def independent(f, inputs, fresh=None, depth=1):
    return [batch(f, inputs, depth=depth), history(f, inputs, fresh, lengths=(3, 12, 30))]
