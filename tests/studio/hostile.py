"""Questions that no page asks: values of any kind at any place of any question."""

import itertools
import json
import random

from tests.studio.choices import chosen

RAW = {  # JSON that Python's parser reads and that fails wherever it is used
    "integer": "1" + "0" * 400,
    "infinite": "1e999",
    "not a number": "NaN",
    "minus infinity": "-Infinity",
    "half character": r'"\ud800"',
    "low half": r'"a\udcff.csv"',
}
VALUES = (
    *(None, True, False, 0, -1, 1, 2**53, 10**18, 1e308, -1e308, 1e-320, 0.5),
    *("", " ", "x", "\0", "-o", "../x", "/etc/passwd", "file:/x", "é" * 300, "a,b=c", "\u202e"),
    *([], [None], [1, "x"], [[]], ["age"] * 3, {}, {"": None}, {"levels": [1]}, {"age": [0, 1]}),
    *({"ward": {"levels": ["x", "x"]}}, {"ward": {"date": "2024-13-01"}}, {"age": [1, 0]}),
)
FIELDS = (
    *chosen(),
    *("adjacency", "bounds", "encode", "missing", "rows", "scale", "show_scores", "sign"),
    *("spectrum", "title", "approver", "name", "id", "format", "key", "fingerprint", "first"),
    *("second", "confirmed", "receipt", "unit", "delta"),
)
NESTED = '{"a":' * 400 + "1" + "}" * 400


def bodies(seed, count):
    """Yield questions as bytes, each good but for one to three fields."""
    rng = random.Random(seed)
    good = chosen(name="first", first="first", second="second", k=1, epsilon=9.0)
    for number in range(count):
        asked = dict(good)
        for field in rng.sample(FIELDS, rng.choice((1, 1, 2, 3))):
            asked[field] = rng.choice(VALUES)
        text = json.dumps(asked)
        if number % 3 == 0:
            field, raw = rng.choice(FIELDS), rng.choice([*RAW.values(), NESTED])
            text = f'{text[:-1]}, "{field}": {raw}}}'
        yield text.encode()


def each_raw():
    """Yield every field with every value that JSON should not have."""
    for field, raw in itertools.product(FIELDS, RAW.values()):
        yield f'{json.dumps(chosen())[:-1]}, "{field}": {raw}}}'.encode()
