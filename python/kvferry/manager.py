"""The manager of one rank, and its rooms.

Thread rule: every method from any thread; none waits for the network, except those with a timeout (they give up the
GIL). A manager does not survive fork(): start it after.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core
from ._core import Poll, Role
from .errors import Error
from .layout import Layout
from .memory import Region

if TYPE_CHECKING:
    import asyncio

    import numpy

NO_SLOT = 0xFFFFFFFF
_STOP_SECONDS = 5.0


class Tag(NamedTuple):
    """What one attempt at a room number is about; equal on both sides. Attempts with equal tags may be joined, others
    wait for the next open. Zeroes mean unknown: then one prompt per room number is promised by the engine."""
    attempt: int = 0
    tokens: int = 0
    last_block_hash: int = 0


class EventKind(IntEnum):
    CHUNK_RETURNED = 0  # sender: the source pages of chunk `chunk` may be reused
    FAILING = 1         # a cause is known (Room.error names it); pages are still held
    TERMINAL = 2        # poll() is SUCCESS or FAILED and all pages are free of the protocol


class Event(NamedTuple):
    kind: EventKind
    handle: int         # Room.handle
    chunk: int          # CHUNK_RETURNED: number of the push, from 0


@dataclass(frozen=True)
class RoomInfo:
    role: Role
    poll: Poll
    created: float          # seconds on CLOCK_MONOTONIC, comparable with time.monotonic()
    legs: int               # sender: receivers that registered; receiver: senders
    legs_required: int      # 0 while unknown
    prefix_tokens: int      # sender: what decode already holds; valid from WAITING_FOR_INPUT on
    tokens: int
    pages: int
    aux_slot: int | None    # receiver's own
    bytes: int              # landed (receiver) or gone out for good (sender)
    failing: bool           # a cause is known; poll may still show the last value
    quiet: bool             # no byte can move any more: pages may be used again
    mover: str              # "shm", "tcp"; empty until agreed


class Quarantined(NamedTuple):
    """Pages that a lost peer might still write; they come back by rekey()."""
    room: int
    peer: str
    pages: list[tuple[int, int]]    # (first, count)


# The counters of kvferry/manager.h by name: rooms_opened, bytes_sent, pages_lent, peers_lost, ...
Counters = dict[str, int]


class Room(_core.Room):
    """One side of one request's KV cache on its way. Made by Manager.open_sender and Manager.open_receiver.

    Native attributes: room (the number), role, handle (an int for poll_many and Event.handle), slot (its index into
    Manager.states).
    Native methods: poll(), wait(timeout), grant(...), push(...), abort(why), reject(status, text), renew(), close().

    A room that ended keeps its error and info until close(). A room object that is collected while its room lives
    closes it, that is, aborts it: keep it.
    """

    __slots__ = ("__weakref__",)

    @property
    def error(self) -> Error | None:
        """The first root cause as an exception object, not raised; None while there is none. Known as soon as the
        room is failing, which may be before poll() shows FAILED."""
        return self._error()

    @property
    def quiet(self) -> bool:
        """No byte can move any more: the pages that were granted or pushed may be used again."""
        return self._quiet()

    def info(self) -> RoomInfo:
        return RoomInfo(*self._info())

    def result(self, timeout: float | None = None) -> RoomInfo:
        """Waits for the end, without the GIL. Returns info() of a success, raises the room's error if it failed.

        Raises kvferry.Timeout when the room has not ended after `timeout` seconds (the room goes on).
        """
        poll = self.wait(timeout)
        if poll == Poll.SUCCESS:
            return self.info()
        if poll == Poll.FAILED:
            raise self.error or Error(f"room {self.room}", "it failed")
        raise self._not_ended(timeout)

    def __await__(self):
        """`info = await room` in asyncio: as result(), without a thread. One event loop per manager."""
        yield from self.manager._until_ended(self).__await__()
        return self.result(0)

    def __enter__(self) -> Room:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Room {self.room} {self.role.name.lower()} {self.poll().name}>"


class Manager(_core.Manager):
    """One rank: its memory, its control endpoint, its movers and one progress thread.

    layout, regions  what this rank holds; `LayerPlace.region` indexes `regions`. A region is a Pool, an array or
                     tensor, `(address, nbytes)`, or a Region.
    name, rank       for people: "prefill-0"
    bind             "HOST:PORT" of the control channel; port 0: any free one, see `endpoint`
    advertise        HOST or HOST:PORT that other hosts dial; empty: the bound address
    movers           in order of preference; names in kvferry.MOVERS. One that this host cannot offer is left out and
                     named in `left_out`.
    deadlines        seconds by name, limits: numbers by name (kvferry/limits.h, `kvferry config`): {"drain": 2.0}
    options          other settings by their full name, as `kvferry config` lists them: {"shm.adopt": True}
    log_fd           a file descriptor that gets one line per event worth telling; -1: nothing is written

    Errors: UsageError names the value, its bounds and the fix; EnvironmentFault what the host refuses.
    Native attributes: endpoint, incarnation, name, left_out. Use it as a context manager, or call stop().
    """

    def __init__(self, layout: Layout, regions: Sequence[Any], *, name: str = "", rank: int = 0,
                 bind: str = "127.0.0.1:0", advertise: str = "", movers: Sequence[str] = ("shm", "tcp"),
                 deadlines: Mapping[str, float] | None = None, limits: Mapping[str, int] | None = None,
                 options: Mapping[str, Any] | None = None, log_fd: int = -1) -> None:
        settings = _settings(name=name, rank=rank, bind=bind, advertise=advertise, movers=movers,
                             deadlines=deadlines or {}, limits=limits or {}, options=options or {})
        held = [Region.of(region) for region in regions]
        super().__init__(layout, held, settings, log_fd)
        self._events: deque[Event] = deque(maxlen=_core.EVENTS_MOST)
        self._waiting: dict[int, list[asyncio.Future[None]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    # --- rooms ---

    def open_sender(self, room: int, *, tag: Tag = Tag(), client_deadline: float = 0.0, priority: int = 0,
                    trace_id: int = 0) -> Room:
        """Prefill's side of room number `room`. Decode may already be waiting, or come later.

        client_deadline: seconds from now after which the room fails; 0: none.
        Errors: Refused when the number is live here, Exhausted or WouldBlock with the limit's name.
        """
        return Room(self, room, Role.SENDER, (), tag, 0, 1, client_deadline, priority, trace_id)

    def open_receiver(self, room: int, senders: Iterable[str], *, tag: Tag = Tag(), leg: int = 0, legs: int = 1,
                      client_deadline: float = 0.0, priority: int = 0, trace_id: int = 0) -> Room:
        """Decode's side. senders: "host:port" of every prefill rank it needs, in rank order. leg, legs: which of how
        many receivers of those senders this is."""
        return Room(self, room, Role.RECEIVER, tuple(senders), tag, leg, legs, client_deadline, priority, trace_id)

    def poll_many(self, rooms: Any, out: numpy.ndarray | None = None) -> numpy.ndarray:
        """The states of many rooms at once, as a uint8 array of Poll values.

        rooms: a uint64 array of Room.handle (fastest), or an iterable of Room. out: a uint8 array to fill.
        """
        import numpy
        if not isinstance(rooms, numpy.ndarray):
            rooms = numpy.fromiter((room.handle for room in rooms), dtype=numpy.uint64)
        if out is None:
            out = numpy.empty(rooms.shape, dtype=numpy.uint8)
        self._poll_many(rooms, out)
        return out

    @property
    def states(self) -> numpy.ndarray:
        """A read-only uint64 view, without a copy, of the words that the progress thread writes: by Room.slot,
        `generation << 8 | poll`. `states[slots] & 0xff` is one sweep over many rooms; a word whose upper part is not
        `Room.handle >> 32` belongs to a later room. Read it anew for each sweep; it stays valid after stop()."""
        return self._states()

    # --- completion ---

    def fileno(self) -> int:
        """A file descriptor that is readable while take_events() has something: for select, poll, epoll."""
        return self._event_fd()

    def take_events(self, most: int = 4096) -> list[Event]:
        """The oldest events that nobody took, at most `most`. Events of rooms that are awaited are among them."""
        self._drain()
        return [self._events.popleft() for _ in range(min(most, len(self._events)))]

    def _drain(self) -> None:
        for kind, handle, chunk in self._take_events():
            self._events.append(Event(EventKind(kind), handle, chunk))
            if kind == EventKind.TERMINAL:
                for future in self._waiting.pop(handle, ()):
                    future.get_loop().call_soon_threadsafe(_settle, future)

    async def _until_ended(self, room: Room) -> None:
        import asyncio
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self.fileno())
            self._loop = loop
        loop.add_reader(self.fileno(), self._drain)
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(room.handle, []).append(future)
        try:
            if room.poll() in (Poll.SUCCESS, Poll.FAILED, Poll.STALE):
                return
            await future
        finally:
            waiters = self._waiting.get(room.handle)
            if waiters is not None and future in waiters:
                waiters.remove(future)
                if not waiters:
                    del self._waiting[room.handle]
            if not self._waiting and not loop.is_closed():
                loop.remove_reader(self.fileno())

    # --- reads and the end ---

    def counters(self) -> Counters:
        """The manager's counters by name; gauges: rooms_live, debts, parked, peers, links, ops_in_flight,
        pages_quarantined, legs_lost."""
        return self._counters()

    def status(self) -> dict[str, Any]:
        """Peers, movers, rooms by state, counters: what `kvferry` tools show."""
        import json
        return json.loads(self._status_json())

    def quarantined(self) -> list[Quarantined]:
        return [Quarantined(*entry) for entry in self._quarantined()]

    def stop(self, timeout: float = _STOP_SECONDS) -> None:
        """Aborts what lives and waits, without the GIL, until it is quiet. Idempotent.

        Raises Timeout when rooms were not quiet after `timeout` seconds: their pages must not be reused.
        """
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.remove_reader, self.fileno())
        self._stop(timeout)
        self._drain()

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Manager {self.name!r} at {self.endpoint}>"


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _settings(*, name: str, rank: int, bind: str, advertise: str, movers: Sequence[str],
              deadlines: Mapping[str, float], limits: Mapping[str, int],
              options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Settings as text, in the words of `kvferry config`; the native side judges names and bounds."""
    made = [("manager.name", name), ("manager.rank", str(rank)), ("control.bind", bind),
            ("control.advertise", advertise), ("movers.order", ",".join(movers))]
    made += [(f"deadlines.{key}", _text(value, duration=key != "heartbeats_missed")) for key, value in deadlines.items()]
    made += [(f"limits.{key}", _text(value)) for key, value in limits.items()]
    made += [(key, _text(value)) for key, value in options.items()]
    return made


def _text(value: Any, *, duration: bool = False) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if duration and isinstance(value, (int, float)):
        return f"{round(value * 1e9)}ns"
    return str(value)
