"""kvferry: moves KV cache between prefill and decode processes.

One `Manager` per rank owns a control endpoint, the registered memory and one progress thread. Each request is a
`Room`: decode opens it with the prefill endpoints and grants pages, prefill opens it by number and pushes pages as
they are computed. Every room ends as `Poll.SUCCESS` or `Poll.FAILED`, and a failed one carries an error that says who
failed, at what, why, and what to do next.

Thread rule for the whole package: every method may be called from any thread. The progress thread never takes the
GIL, and every call that may wait gives it up.
"""
from __future__ import annotations

from ._core import BUILD, MOVERS, Poll, Role, __version__
from .errors import (Aborted, BadMessage, Bug, EnvironmentFault, Error, Exhausted, MismatchError, Next, PeerLost,
                     Refused, Rejected, Superseded, Timeout, TransportError, Unsupported, UsageError, Who, WouldBlock)
from .layout import Component, ComponentKind, LayerPlace, Layout, Space
from .manager import Counters, Event, EventKind, Manager, Quarantined, Room, RoomInfo, Tag
from .memory import Pool, Region
from .registry import Registry, RegistryServer, RegistryStatus, ResolvedRank

__all__ = [
    "BUILD", "MOVERS", "Aborted", "BadMessage", "Bug", "Component", "ComponentKind", "Counters", "EnvironmentFault",
    "Error", "Event", "EventKind", "Exhausted", "LayerPlace", "Layout", "Manager", "MismatchError", "Next", "PeerLost",
    "Poll", "Pool", "Quarantined", "Refused", "Region", "Registry", "RegistryServer", "RegistryStatus", "Rejected",
    "ResolvedRank", "Role", "Room", "RoomInfo", "Space", "Superseded", "Tag", "Timeout", "TransportError",
    "Unsupported", "UsageError", "Who", "WouldBlock", "__version__",
]
