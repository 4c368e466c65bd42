"""Who serves which group: the bootstrap registry as a server, and a rank's side of it.

Thread rule: every method from any thread. An unreachable server is a status and an error text, never the end of the
process; registrations come back by themselves when it does.
"""
from __future__ import annotations

from dataclasses import dataclass

from . import _core
from ._core import Role
from .errors import Error


@dataclass(frozen=True)
class ResolvedRank:
    rank: int
    endpoint: str       # "host:port" of the rank's control channel: what open_receiver() takes
    name: str
    incarnation: str    # "1754000000000-00f3a9c1d2e4b567"


@dataclass(frozen=True)
class RegistryStatus:
    reachable: bool         # the last request was answered
    held: int               # registrations asked for
    registered: int         # of them: acknowledged, lease running
    superseded: int         # of them: a newer process took the rank; given up
    registrations: int      # answers "created" or "replaced"
    renewals: int
    failures: int           # requests without an answer
    last_error: Error | None


class RegistryServer(_core.RegistryServer):
    """The registry as an HTTP server on a thread of its own (routes: docs/cli.md, `kvferry bootstrap`).

    listen  "HOST:PORT"; port 0: any free one, see `endpoint`
    Errors: UsageError for a bad value, EnvironmentFault for an address that cannot be listened on.
    Use it as a context manager, or call stop().
    """

    def __init__(self, listen: str = "127.0.0.1:8997") -> None:
        super().__init__(listen)

    def __enter__(self) -> RegistryServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Registry(_core.RegistryClient):
    """A rank's side of the registry.

    server           "HOST:PORT" of the server; it need not be there yet
    request_timeout  seconds for connect, question and answer, each
    """

    def __init__(self, server: str, *, request_timeout: float = 2.0) -> None:
        super().__init__(server, request_timeout)

    def hold(self, group: str, rank: int, endpoint: str, incarnation: str, *, role: Role = Role.SENDER, name: str = "",
             tp: int = 1, pp: int = 1, dp: int = 1, lease: float = 30.0, draining: bool = False) -> None:
        """Registers this rank and renews it at a third of `lease` (seconds) until release() or stop().

        `endpoint` and `incarnation` are those of the rank's Manager. The same (group, rank) again replaces the earlier
        wish. Returns at once; wait_registered() tells when the server has acknowledged.
        """
        self._hold(group, rank, endpoint, incarnation, role, name, tp, pp, dp, lease, draining)

    def resolve(self, group: str, timeout: float) -> list[ResolvedRank]:
        """All ranks of the group, in rank order, once every one is registered. Waits without the GIL.

        Raises Timeout after `timeout` seconds, naming the group, the server and what is missing.
        """
        return [ResolvedRank(*entry) for entry in self._resolve(group, timeout)]

    @property
    def status(self) -> RegistryStatus:
        return RegistryStatus(*self._status())

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
