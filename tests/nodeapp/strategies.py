"""Hypothesis strategies for values, predicates, events and frames."""

from __future__ import annotations

import string

from hypothesis import strategies as st

from nodeapp import wire
from nodeapp.events import Event, Filter
from nodeapp.predicates import INT_MAX, INT_MIN, Predicate, Value
from nodeapp.pubsub.registry import kinds
from nodeapp.wire import Frame

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(INT_MIN, INT_MAX) | st.floats(allow_nan=False, allow_infinity=False)
values: st.SearchStrategy[Value] = numbers | st.booleans() | texts
names = st.text(string.ascii_letters + string.digits + "_.-:äß", min_size=1, max_size=12)
attributes = st.dictionaries(names, values, max_size=5)
predicates = st.one_of(
    st.builds(Predicate, names, st.sampled_from(["=", "!="]), values),
    st.builds(Predicate, names, st.sampled_from(["<", "<=", ">", ">="]), numbers | texts),
    st.builds(Predicate, names, st.sampled_from(["prefix", "suffix", "contains"]), texts),
    st.builds(Predicate, names, st.just("exists")),
)
filters = st.lists(predicates, max_size=4).map(lambda found: Filter(tuple(found)))
ids = st.integers(1, 2**32 - 2)
events = st.builds(Event, ids, ids, attributes, st.none() | filters, st.binary(max_size=30))
words = st.integers(0, 2**32 - 1)
octets = st.integers(0, 255)
frames = st.builds(
    Frame,
    st.sampled_from(list(kinds())),
    words,
    words,
    words,
    words,
    octets,
    octets,
    octets,
    st.binary(max_size=60),
    st.binary(max_size=60),
)
# What random bytes seldom are: CBOR, but not what was asked for.
cbor_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
bodies = st.binary(max_size=60) | cbor_values.map(wire.encode_body)
HOSTILE_CBOR = (
    b"",
    b"\xff",
    b"\x81" * 2_000 + b"\x01",  # deep nesting
    b"\xa1\x61a" * 1_000 + b"\x01",
    b"\xd8\x1c" * 1_000 + b"\x01",
    b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff",  # huge lengths
    b"\x7b\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\x9b\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\xbb\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\xd8\x1c\x81\xd8\x1d\x00",  # an array that holds itself
    b"\xc5\x82\x1a\x7f\xff\xff\xff\x03",  # 3 * 2**2147483647
    b"\xc4\x82\x1a\x7f\xff\xff\xff\x03",  # 3 * 10**2147483647
    b"\xc2\x59\x03\xe8" + b"\xff" * 1_000,  # a big number
    b"\xc0\x61x",  # a date that is none
    b"\xd8\x23\x68(a+)+(a+",  # a regular expression
    b"\xd8\x24\x61a",  # a MIME message
    b"\xd9\x01\x00\x82\x63abc\xd8\x19\x00",  # references to texts
    b"\x63\xed\xa0\x80",  # a surrogate in UTF-8
    b"\xa1\x80\x01",  # an array as a key
    b"\xa2\x61a\x01\x61a\x02",  # a key twice
    b"\x01\x02",  # two items
)

hostile = st.integers(0, len(HOSTILE_CBOR) - 1).map(HOSTILE_CBOR.__getitem__) | bodies
