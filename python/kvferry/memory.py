"""Memory that a manager may move: pools of kvferry's own, and ranges of the engine's.

Thread rule: values; any thread. A manager keeps a reference to every region handed to it until it is stopped and
collected.
"""
from __future__ import annotations

from typing import Any

from . import _core
from .errors import Next, Unsupported, UsageError, Who

_DEVICES = {1: "cpu", 2: "cuda", 3: "pinned host (cuda)", 10: "rocm", 11: "pinned host (rocm)"}
_HOST = (1, 3, 11)


class Region:
    """A range of host memory: `address` and `nbytes`, and the object that keeps it alive.

    Region(obj)              anything with the buffer protocol, a numpy array, or an object with `__dlpack__` (a torch
                             tensor); it must be contiguous. Device memory is refused by name.
    Region(address, nbytes)  a pointer of the engine's: the caller keeps the memory alive while the manager lives.
    """

    __slots__ = ("_pin", "address", "nbytes", "owner")

    def __init__(self, source: Any, nbytes: int | None = None) -> None:
        self._pin: memoryview | None = None     # a bytearray that is lent out refuses to be resized
        if isinstance(source, int):
            if nbytes is None or nbytes <= 0 or source <= 0:
                raise UsageError(f"region at address {source}", f"length {nbytes}; give an address and a length above 0",
                                 who=Who.CONFIG, next=Next.AFTER_FIX)
            self.address, self.nbytes, self.owner = source, nbytes, None
            return
        try:
            address, size, device, contiguous = _core.memory_of(source)
        except BufferError as error:
            raise UsageError(f"region of a {type(source).__name__}", f"{error} Hand in memory that is writable",
                             who=Who.CONFIG, next=Next.AFTER_FIX) from error
        if device not in _HOST:
            raise Unsupported(f"region of a {type(source).__name__}",
                              f"its memory is on device type {_DEVICES.get(device, device)}; only host memory is moved",
                              who=Who.CONFIG, next=Next.AFTER_FIX)
        if not contiguous or size == 0:
            raise UsageError(f"region of a {type(source).__name__}",
                             f"{size} bytes, contiguous: {contiguous}; hand in one contiguous range",
                             who=Who.CONFIG, next=Next.AFTER_FIX)
        self.address, self.nbytes, self.owner = address, size, source
        if isinstance(source, bytearray):
            self._pin = memoryview(source)

    @classmethod
    def of(cls, source: Any) -> Region:
        """A Region as it is; a `(address, nbytes)` pair; else Region(source)."""
        if isinstance(source, Region):
            return source
        if isinstance(source, tuple) and len(source) == 2:
            return cls(*source)
        return cls(source)

    def __repr__(self) -> str:
        return f"Region(0x{self.address:x}, {self.nbytes})"


class Pool(_core.Pool):
    """Memory of kvferry's own: a sealed memfd, zeroed and touched, in huge pages where the kernel gives them.

    Pool(nbytes) allocates at least `nbytes` (rounded up to 2 MiB) and takes about 0.4 s a GiB, without the GIL. The
    shm mover shares it as it is. It has the buffer protocol: `numpy.frombuffer(pool, dtype)`, `torch.frombuffer(...)`.
    Errors: UsageError for 0, EnvironmentFault when the host has not that much.
    address, nbytes: where it is. report: "64 of 64 MiB in huge pages".
    """

    __slots__ = ()

    def array(self, shape: Any, dtype: Any = "uint8", offset: int = 0) -> Any:
        """A numpy array over the pool: `shape` and `dtype` as in numpy.ndarray, `offset` in bytes."""
        import numpy
        return numpy.ndarray(shape, dtype=dtype, buffer=memoryview(self), offset=offset)
