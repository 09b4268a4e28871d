"""Questions that no page asks: values of any kind in any field."""

import itertools
import json

from tests.fuzz.values import any_json, dumped, odd_text
from tests.studio.choices import chosen

RAW = {  # what Python's parser reads, and what then fails wherever it is used
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
    *("second", "confirmed", "receipt"),
)


def bodies(rng, count):
    """Yield questions as bytes, each good but for one to three fields."""
    good = chosen(name="first", first="first", second="second", k=1, epsilon=9.0)
    for _ in range(count):
        asked = dict(good)
        for field in rng.sample(FIELDS, rng.choice((1, 1, 2, 3))):
            values = (rng.choice(VALUES), rng.choice(VALUES), odd_text(rng), any_json(rng))
            asked[field] = rng.choice(values)
        yield dumped(asked)


def each_raw():
    """Yield every field with every value that JSON should not have."""
    for field, raw in itertools.product(FIELDS, RAW.values()):
        yield f'{json.dumps(chosen())[:-1]}, "{field}": {raw}}}'.encode()
