"""Two managers on loopback with a pool each: what most tests of the package begin with."""
from __future__ import annotations

import time

import numpy

import kvferry

PAGE_TOKENS, PAGES, LAYERS, ITEM_BYTES, AUX_SLOTS, AUX_BYTES = 16, 64, 2, 1024, 4, 64
PAGE_REGION = PAGES * LAYERS * ITEM_BYTES


def layout() -> kvferry.Layout:
    return kvferry.Layout(PAGE_TOKENS, [
        kvferry.Component.packed("kv", item_bytes=ITEM_BYTES, items=PAGES, layer_ids=range(LAYERS)),
        kvferry.Component.packed("aux", item_bytes=AUX_BYTES, items=AUX_SLOTS, layer_ids=[0], base=PAGE_REGION,
                                 kind=kvferry.ComponentKind.AUX, space=kvferry.Space.AUX),
    ])


class Side:
    """A manager over one pool; `pages` is its memory as (layer, page, byte)."""

    def __init__(self, name: str, movers=("shm", "tcp"), memory=None, **options) -> None:
        self.memory = memory if memory is not None else kvferry.Pool(PAGE_REGION + AUX_SLOTS * AUX_BYTES)
        flat = numpy.frombuffer(self.memory, dtype=numpy.uint8)
        self.pages = flat[:PAGE_REGION].reshape(LAYERS, PAGES, ITEM_BYTES)
        self.manager = kvferry.Manager(layout(), [self.memory], name=name, movers=movers, **options)

    def fill(self, seed: int) -> None:
        self.pages[:] = numpy.random.default_rng(seed).integers(0, 256, self.pages.shape, dtype=numpy.uint8)


def open_pair(prefill: Side, decode: Side, room: int) -> tuple[kvferry.Room, kvferry.Room]:
    receiver = decode.manager.open_receiver(room, [prefill.manager.endpoint])
    return prefill.manager.open_sender(room), receiver


def until(holds, timeout: float = 10.0) -> None:
    """Waits for a fact about another thread; fails the test, naming nothing, after `timeout` seconds."""
    end = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.001)
