"""What each entry of the table of rotary encodings does to a query or a key, by the plain formulas."""

from tests.layers.oracles import rotary as plain

BASE = 10000.0


def scaled(thetas_of, size=1.0):
    """A rotation by the frequencies that a formula gives for a width and a length."""

    def turn(x, position, is_key, length, encoding):
        dims = len(x)
        return plain.turned(x, plain.at(position, thetas_of(dims, length)), plain.halves(dims), size)

    return turn


def partial(layout):
    def turn(x, position, is_key, length, encoding):
        return plain.turned(x, plain.at(position, plain.frequencies(2)), layout(2))

    return turn


def longrope(dims, length):
    short, long = [1.0 + 0.1 * i for i in range(dims // 2)], [1.5 + i for i in range(dims // 2)]
    return plain.longrope(dims, BASE, short, long, 12, length)


def xpos(layout, centre):
    def turn(x, position, is_key, length, encoding):
        dims = len(x)
        sizes = plain.xpos_sizes(dims, position, is_key, centre)
        return plain.turned(x, plain.at(position, plain.frequencies(dims)), layout(dims), sizes)

    return turn


def axial(layout):
    def turn(x, position, is_key, length, encoding):
        dims = len(x)
        coordinates = [2 * position, position] if dims % 4 == 0 else [2 * position]
        angles = plain.axial_angles(dims, coordinates)
        return plain.turned(x, angles, layout(dims, len(coordinates)))

    return turn


def mixed(x, position, is_key, length, encoding):
    vectors = encoding.encoding.frequencies[0].tolist()
    return plain.turned(x, plain.mixed_angles([2 * position, position], vectors), plain.halves(len(x)))


def multimodal(axis_of_pair):
    def turn(x, position, is_key, length, encoding):
        dims = len(x)
        coordinates = [3 * position, 2 * position, position]
        angles = plain.multimodal_angles(dims, coordinates, axis_of_pair[dims // 2])
        return plain.turned(x, angles, plain.halves(dims))

    return turn


def proportional(dims, length):
    return plain.proportional(dims, BASE, 1.0 if dims == 2 else 0.5)


FAMILY = {
    "rotary, two dimensions": partial(plain.neighbours),
    "rotary, interpolated": scaled(lambda dims, length: plain.interpolated(dims, BASE, 4.0)),
    "rotary, NTK": scaled(lambda dims, length: plain.frequencies(dims, plain.ntk_base(dims, BASE, 4.0))),
    "rotary, dynamic NTK": scaled(
        lambda dims, length: plain.frequencies(dims, plain.dynamic_base(dims, BASE, 2.0, 4, 16))
    ),
    "rotary, YaRN": scaled(lambda dims, length: plain.yarn(dims, BASE, 4.0, 64), plain.yarn_size(4.0)),
    "rotary, LongRoPE": scaled(longrope, plain.longrope_size(4.0, 12)),
    "rotary, Llama 3": scaled(lambda dims, length: plain.llama3(dims, BASE, 8.0, 16)),
    "rotary, proportional": scaled(proportional),
    "xpos": xpos(plain.halves, 2000),
    "axial": axial(plain.halves_of_axes),
    "mixed": mixed,
    "multimodal": multimodal({1: [0], 2: [0, 1], 4: [0, 1, 2, 0]}),
}


def rows_turned(name, encoding, rows, positions, is_key, length):
    """Each row of one head, turned by its position."""
    turn = FAMILY[name]
    return [
        turn(list(row), int(at), is_key, length, encoding) for row, at in zip(rows, positions, strict=True)
    ]
