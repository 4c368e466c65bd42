"""What a rank holds, as data: components, layers, pages. Values; no thread rule.

The two sides of a room are paired by component (kind and name) and global layer id, never by position in a list.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum


class Space(IntEnum):
    """By which index the memory of a component is found."""
    PAGES = 0   # the block table: one index per page of tokens
    AUX = 1     # one auxiliary slot per room
    STATE = 2   # constant-size state slots


class ComponentKind(IntEnum):
    ATTENTION = 0
    MLA = 1
    INDEXER = 2
    SLIDING_WINDOW = 3
    STATE = 4
    BLOCK_SCALES = 5
    DRAFT = 6
    ENCODER = 7
    AUX = 8


@dataclass(frozen=True)
class LayerPlace:
    """One layer of one component: item i lies at `base + i * stride` bytes of region `region`."""
    layer: int      # global layer id
    region: int     # index into the manager's list of regions
    base: int       # bytes from the start of the region
    stride: int     # bytes from item i to item i + 1


@dataclass(frozen=True)
class Component:
    """One kind of memory over all layers of this rank.

    item_bytes  bytes of one item (page or slot) of one layer
    items       items in each layer: index i is valid when i < items
    dtype       a word that both sides must agree on: "bf16", "f32", "fp8_e4m3", "u8", ...
    """
    name: str
    item_bytes: int
    items: int
    layers: Sequence[LayerPlace]
    kind: ComponentKind = ComponentKind.ATTENTION
    space: Space = Space.PAGES
    dtype: str = "u8"

    @classmethod
    def from_regions(cls, name: str, *, item_bytes: int, items: int, layer_ids: Sequence[int], first_region: int,
                     kind: ComponentKind = ComponentKind.ATTENTION, space: Space = Space.PAGES,
                     dtype: str = "u8") -> Component:
        """One region per layer (how engines hand out their buffers): layer `layer_ids[i]` is the whole of region
        `first_region + i`, items side by side."""
        places = [LayerPlace(layer, first_region + i, 0, item_bytes) for i, layer in enumerate(layer_ids)]
        return cls(name, item_bytes, items, places, kind, space, dtype)

    @classmethod
    def packed(cls, name: str, *, item_bytes: int, items: int, layer_ids: Sequence[int], region: int = 0,
               base: int = 0, kind: ComponentKind = ComponentKind.ATTENTION, space: Space = Space.PAGES,
               dtype: str = "u8") -> Component:
        """All layers in one region, layer by layer from `base` on, items side by side."""
        step = item_bytes * items
        places = [LayerPlace(layer, region, base + i * step, item_bytes) for i, layer in enumerate(layer_ids)]
        return cls(name, item_bytes, items, places, kind, space, dtype)

    @property
    def nbytes(self) -> int:
        """Bytes over all layers."""
        return self.item_bytes * self.items * len(self.layers)


@dataclass(frozen=True)
class Layout:
    """The memory of one rank. `page_tokens` and the components must agree on both sides; layers may differ."""
    page_tokens: int
    components: Sequence[Component]
    tp_rank: int = field(default=0, kw_only=True)
    tp_size: int = field(default=1, kw_only=True)
    pp_rank: int = field(default=0, kw_only=True)
    pp_size: int = field(default=1, kw_only=True)
    dp_rank: int = field(default=0, kw_only=True)
    dp_size: int = field(default=1, kw_only=True)
    cp_rank: int = field(default=0, kw_only=True)
    cp_size: int = field(default=1, kw_only=True)

    def items(self, space: Space = Space.PAGES) -> int:
        """The smallest `items` over the components of that space; 0 if there is none."""
        return min((part.items for part in self.components if part.space == space), default=0)

    def bytes_per_item(self, space: Space = Space.PAGES) -> int:
        """Bytes of one page (or slot) over all layers and components of that space."""
        return sum(part.item_bytes * len(part.layers) for part in self.components if part.space == space)
