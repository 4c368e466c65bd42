"""Drive whole clusters of managers in one process, in virtual time, with faults at will.

Thread rule: a Cluster and all that hangs on it belong to one thread; its managers have no thread of their own, so
nothing moves but inside settle() and advance(). The same kit as kvferry/testkit.h.

    cluster = Cluster(mover="loopback-landed")
    sender = cluster.prefill().manager.open_sender(7001)
    receiver = cluster.decode().manager.open_receiver(7001, cluster.senders())
    cluster.prefill().mover.hold()
    receiver.grant([5], tokens=16)
    sender.push([0], tokens=16, last=True)
    cluster.settle()
    receiver.abort("client went away")
    cluster.settle()
    assert not receiver.quiet       # the held write may still land
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from . import _core
from ._core import Role
from .errors import Error
from .manager import Counters, Event, EventKind, Quarantined, Room, Tag

if TYPE_CHECKING:
    import numpy


class NodeManager(_core.NodeManager):
    """The manager of a node: as kvferry.Manager, without what needs a thread. After Cluster.crash() it raises
    kvferry.Refused; Node.manager then has the next life's."""

    def open_sender(self, room: int, *, tag: Tag = Tag(), client_deadline: float = 0.0, priority: int = 0,
                    trace_id: int = 0) -> Room:
        return Room(self, room, Role.SENDER, (), tag, 0, 1, client_deadline, priority, trace_id)

    def open_receiver(self, room: int, senders: Iterable[str], *, tag: Tag = Tag(), leg: int = 0, legs: int = 1,
                      client_deadline: float = 0.0, priority: int = 0, trace_id: int = 0) -> Room:
        return Room(self, room, Role.RECEIVER, tuple(senders), tag, leg, legs, client_deadline, priority, trace_id)

    def take_events(self, most: int = 4096) -> list[Event]:
        return [Event(EventKind(kind), handle, chunk) for kind, handle, chunk in self._take_events(most)]

    def counters(self) -> Counters:
        return self._counters()

    def quarantined(self) -> list[Quarantined]:
        return [Quarantined(*entry) for entry in self._quarantined()]


class FaultMover(_core.FaultMover):
    """A decorator around the node's mover.

    Native methods: hold(), release() -> how many, land_late(), release_late() -> how many, lose_next_completion(),
    double_next_completion(). Native attributes: held, posts.
    """

    def fail_next_submit(self, error: Error) -> None:
        """The next post returns `error`."""
        self._fail_next(False, type(error).__name__, error.what, error.why, int(error.next), error.status)

    def fail_next_halfway(self, error: Error) -> None:
        """The next post moves half of its runs, then completes with `error`."""
        self._fail_next(True, type(error).__name__, error.what, error.why, int(error.next), error.status)


class FaultNet(_core.FaultNet):
    """The links between the nodes. Rules go by message name ("GRANT", "DONE", "*") and direction.

    Native methods: remove(id), cut(a, b), mend(a, b). Native attributes: dropped, delayed, duplicated, truncated.
    """

    def add(self, act: str, message: str = "*", *, sender: str = "", receiver: str = "", delay: float = 0.0,
            times: int = 0xFFFFFFFF) -> int:
        """act: "drop", "delay", "duplicate", "reorder" or "truncate"; sender, receiver: node names, empty for any;
        delay in seconds; times: frames until the rule is spent. Returns an id for remove()."""
        return self._add(act, message, sender, receiver, delay, times)


class Node(_core.Node):
    """One process of the cluster. Native attribute: name."""

    @property
    def manager(self) -> NodeManager:
        """The present life's manager; raises kvferry.Refused while the node is crashed."""
        return NodeManager(self)

    @property
    def mover(self) -> FaultMover:
        return FaultMover(self)

    def item(self, layer: int, page: int) -> numpy.ndarray:
        """A writable uint8 view of one page of one layer."""
        import numpy
        return numpy.frombuffer(self._item(layer, page), dtype=numpy.uint8)

    def aux(self, slot: int) -> numpy.ndarray:
        """A writable uint8 view of one auxiliary slot."""
        import numpy
        return numpy.frombuffer(self._aux(slot), dtype=numpy.uint8)


class Cluster(_core.Cluster):
    """Prefill and decode nodes in one process.

    mover: "loopback-push" (the receiver's process places the bytes), "loopback-pull" (decode reads), "loopback-landed"
    (one-sided: the sender writes, then says DONE). pp: prefill nodes are pipeline stages.
    Native methods: settle(), crash(node), restart(node), senders().
    """

    def __init__(self, *, prefill: int = 1, decode: int = 1, pages: int = 64, page_tokens: int = 16, layers: int = 2,
                 item_bytes: int = 1024, aux_slots: int = 8, aux_bytes: int = 64, mover: str = "loopback-push",
                 deadlines: Mapping[str, float] | None = None, limits: Mapping[str, int] | None = None,
                 pp: bool = False) -> None:
        from .manager import _text
        settings = [(f"deadlines.{key}", _text(value, duration=key != "heartbeats_missed"))
                    for key, value in (deadlines or {}).items()]
        settings += [(f"limits.{key}", _text(value)) for key, value in (limits or {}).items()]
        super().__init__(prefill, decode, pages, page_tokens, layers, item_bytes, aux_slots, aux_bytes, mover, settings,
                         pp)

    def prefill(self, index: int = 0) -> Node:
        return Node(self, True, index)

    def decode(self, index: int = 0) -> Node:
        return Node(self, False, index)

    @property
    def net(self) -> FaultNet:
        return FaultNet(self)

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self._now()

    def advance(self, seconds: float) -> None:
        """Time passes: timers, deliveries and loops run in order; then settle()."""
        self._advance(seconds)
