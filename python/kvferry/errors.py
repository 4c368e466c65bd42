"""One exception class for each error code; each says who failed, at what, why, and what the caller may do next.

Code switches on the class and on `next`; the text is for people and is not parsed.
"""
from __future__ import annotations

from enum import IntEnum


class Who(IntEnum):
    """Whose fault it is."""
    LOCAL = 0
    PEER = 1
    TRANSPORT = 2
    CONFIG = 3


class Next(IntEnum):
    """What the caller may do."""
    NEVER = 0       # the same call will fail again
    SAME_ROOM = 1   # open the same room number again
    NEW_ROOM = 2    # try again under a new room number
    AFTER_FIX = 3   # somebody has to change something first
    RETRY = 4       # the same call, a little later


class Error(Exception):
    """Base of all kvferry errors.

    code    the name of the error code, as in docs/protocol.md ("peer lost")
    who     whose fault it is (`Who`)
    what    component and subject: "room 7001 leg 2/4 (prefill-1@10.0.0.5:8998)"
    why     the exact cause, with its numbers
    next    what the caller may do (`Next`)
    status  the engine's own status for `Rejected` (HTTP style); errno or the mover's own code else; 0: none
    line    all of it as one log line, always in the same order; also `str(error)`
    """

    code = "error"

    def __init__(self, what: str = "", why: str = "", *, who: Who = Who.LOCAL, next: Next = Next.NEVER,
                 status: int = 0, line: str = "") -> None:
        self.who, self.next, self.status = who, next, status
        self.what, self.why = what, why
        self.line = line or f"{who.name.lower()}: {what}: {why}"
        super().__init__(self.line)

    def __reduce__(self):
        return _rebuild, (type(self), self.what, self.why, int(self.who), int(self.next), self.status, self.line)


def _rebuild(kind: type[Error], what: str, why: str, who: int, next: int, status: int, line: str) -> Error:
    return kind(what, why, who=Who(who), next=Next(next), status=status, line=line)


class Aborted(Error):
    """A user of either side ended the room."""
    code = "aborted"


class Rejected(Error):
    """Prefill refused the request; `status` and `why` are what it said."""
    code = "rejected"


class Timeout(Error, TimeoutError):
    """A named deadline ran out; `why` names it and its value."""
    code = "timeout"


class PeerLost(Error, ConnectionError):
    """The other process died, restarted or stayed silent."""
    code = "peer lost"


class Superseded(Error):
    """A newer attempt of the same room took over."""
    code = "superseded"


class Refused(Error):
    """A rule of the protocol forbids it: the room number is live, a page is still lent, ..."""
    code = "refused"


class MismatchError(Error):
    """The two sides disagree; `why` holds both values."""
    code = "mismatch"


class BadMessage(Error):
    """A frame that is not ours."""
    code = "bad message"


class Exhausted(Error):
    """A named limit was reached."""
    code = "exhausted"


class WouldBlock(Error, BlockingIOError):
    """Back-pressure; the call had no effect. Try again."""
    code = "would block"


class TransportError(Error):
    """The mover's own failure, with its own code and text."""
    code = "transport"


class Unsupported(Error):
    """Named, known, and not offered here."""
    code = "unsupported"


class EnvironmentFault(Error, OSError):
    """A port, a file, memory or a permission of this host; `status` is the errno where there is one."""
    code = "environment"


class UsageError(Error, ValueError):
    """A value given by the caller or the operator is wrong; `why` names value, limit and fix."""
    code = "usage"


class Bug(Error):
    """A fault of kvferry itself."""
    code = "bug"


# By the number of the code in kvferry/error.h; 0 is "no error".
_CLASSES: tuple[type[Error], ...] = (
    Error, Aborted, Rejected, Timeout, PeerLost, Superseded, Refused, MismatchError, BadMessage, Exhausted, WouldBlock,
    TransportError, Unsupported, EnvironmentFault, UsageError, Bug)


def _make(code: int, who: int, next: int, status: int, what: str, why: str, line: str) -> Error:
    """Called by the native module for each error value."""
    return _rebuild(_CLASSES[code], what, why, who, next, status, line)
