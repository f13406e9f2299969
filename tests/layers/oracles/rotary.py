"""The rotary family from the papers, in plain loops over plain numbers: no NumPy, torch or headwise.

A scaling gives the frequencies of the pairs of ``dims`` dimensions; a layout says which dimensions pair up.
"""

import math


def frequencies(dims, base=10000.0):
    """Su et al. 2021: ``base^(-2i / dims)``."""
    return [math.pow(base, -2 * i / dims) for i in range(dims // 2)]


def interpolated(dims, base, factor):
    """Chen et al. 2023: position ``p / factor``."""
    return [theta / factor for theta in frequencies(dims, base)]


def ntk_base(dims, base, factor):
    """bloc97 2023: ``base * factor^(dims / (dims - 2))``; a lone pair does not feel the base."""
    return base if dims == 2 else base * math.pow(factor, dims / (dims - 2))


def dynamic_base(dims, base, factor, original, length):
    """emozilla 2023: the factor follows the length, beyond the original one."""
    if length <= original:
        return base
    return ntk_base(dims, base, factor * length / original - (factor - 1))


def yarn_bounds(dims, base, original, fast=32.0, slow=1.0, truncate=True):
    """Peng et al. 2023: the dimensions that turn ``fast`` and ``slow`` times in the original length."""

    def dimension(turns):
        return dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = dimension(fast), dimension(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    return max(low, 0), min(high, dims - 1)


def yarn(dims, base, factor, original, **how):
    low, high = yarn_bounds(dims, base, original, **how)
    scaled = []
    for i, theta in enumerate(frequencies(dims, base)):
        ramp = min(max((i - low) / (high - low), 0.0), 1.0)
        scaled.append(theta * (1 - ramp) + theta / factor * ramp)
    return scaled


def yarn_size(factor, mscale=None, mscale_all_dim=None):
    """What cosine and sine are multiplied by."""

    def growth(m):
        return 0.1 * m * math.log(factor) + 1.0

    return (
        growth(1.0) if mscale is None or mscale_all_dim is None else growth(mscale) / growth(mscale_all_dim)
    )


def longrope(dims, base, short, long, original, length):
    """Ding et al. 2024: one divisor a pair, from one of two lists."""
    divisors = long if length > original else short
    return [theta / divisor for theta, divisor in zip(frequencies(dims, base), divisors, strict=True)]


def longrope_size(factor, original):
    return math.sqrt(1 + math.log(factor) / math.log(original))


def llama3(dims, base, factor, original, low=1.0, high=4.0):
    """Meta's release of Llama 3.1: by wavelength."""
    scaled = []
    for theta in frequencies(dims, base):
        wavelength = 2 * math.pi / theta
        if wavelength < original / high:
            scaled.append(theta)
        elif wavelength > original / low:
            scaled.append(theta / factor)
        else:
            t = (original / wavelength - low) / (high - low)
            scaled.append((1 - t) * theta / factor + t * theta)
    return scaled


def proportional(dims, base, share, factor=1.0):
    """Barbero et al. 2024: the denominator stays the whole head."""
    turning = int(share * dims / 2)
    return [theta / factor if i < turning else 0.0 for i, theta in enumerate(frequencies(dims, base))]


def halves(dims):
    return [(i, i + dims // 2) for i in range(dims // 2)]


def neighbours(dims):
    return [(2 * i, 2 * i + 1) for i in range(dims // 2)]


def halves_of_axes(dims, axes):
    share = dims // axes
    return [(axis * share + a, axis * share + b) for axis in range(axes) for a, b in halves(share)]


def turned(x, angles, layout, sizes=1.0):
    """Each pair as a complex number times ``size * e^(i angle)``; what is in no pair stays."""
    sizes = sizes if isinstance(sizes, list) else [sizes] * len(angles)
    result = list(x)
    for (a, b), angle, size in zip(layout, angles, sizes, strict=True):
        hand = complex(x[a], x[b]) * size * complex(math.cos(angle), math.sin(angle))
        result[a], result[b] = hand.real, hand.imag
    return result


def at(position, thetas):
    return [position * theta for theta in thetas]


def xpos_sizes(dims, position, is_key, centre=0, scale_base=512.0):
    """Sun et al. 2022, with the numbers of the authors' code."""
    power = (position - centre) / scale_base * (-1 if is_key else 1)
    return [math.pow((2 * i + 0.4 * dims) / (1.4 * dims), power) for i in range(dims // 2)]


def axial_angles(dims, coordinates, base=10000.0):
    """Heo et al. 2024, section 3.1: the pairs of the first axis, then those of the next."""
    share = dims // len(coordinates)
    return [p * theta for p in coordinates for theta in frequencies(share, base)]


def mixed_angles(coordinates, vectors):
    """Heo et al. 2024, section 3.2: one vector a pair."""
    return [sum(p * v for p, v in zip(coordinates, vector, strict=True)) for vector in vectors]


def multimodal_angles(dims, coordinates, axis_of_pair, base=10000.0):
    """Wang et al. 2024: frequencies of the whole head, each with the position on its pair's axis."""
    thetas = frequencies(dims, base)
    return [coordinates[axis] * theta for axis, theta in zip(axis_of_pair, thetas, strict=True)]
