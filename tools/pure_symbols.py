#!/usr/bin/env python3
"""The pure libraries must not call the world: reads `nm -u` of each archive and names every forbidden symbol.

Weak references are ignored (libstdc++ carries some for threads), everything else counts.
usage: pure_symbols.py ARCHIVE...
"""
import re
import subprocess
import sys
from pathlib import Path

from files import report

FORBIDDEN_C = re.compile(
    r"^_*(clock_\w+|gettimeofday|time|times|nanosleep|usleep|sleep|timerfd_\w+"
    r"|pthread_\w+|thrd_\w+|mtx_\w+|cnd_\w+|sem_\w+|fork|vfork|exec\w+|posix_spawn\w*|kill|signal|sigaction|raise"
    r"|send\w*|recv\w*|socket\w*|connect|accept4?|bind|listen|getaddrinfo|epoll_\w+|poll|ppoll|p?select|eventfd\w*"
    r"|secure_getenv|getenv|setenv|putenv|environ"
    r"|open(at)?(64)?|creat|close|p?read(v|64)?|p?write(v|64)?|fopen\w*|fread|fwrite|fputs|fputc|puts|putchar"
    r"|v?f?printf(_chk)?|perror|syslog|stdout|stderr|stdin|mmap(64)?|munmap|mprotect|memfd_create|shm_\w+|process_vm_\w+"
    r"|rand|random|srand|rand_r|drand48|getrandom|getentropy|syscall|ioctl|dlopen|dlsym)$")

# Mangled names; matched from their beginning.
FORBIDDEN_CXX = {
    r"_ZNSt6chrono3_V21[0-9]\w+3nowEv": "a clock of std::chrono",
    r"_ZNSt6thread": "std::thread",
    r"_ZNSt18condition_variable": "std::condition_variable",
    r"_ZNSt13random_device": "std::random_device",
    r"_ZSt4cout$|_ZSt4cerr$|_ZSt4clog$|_ZSt3cin$": "a standard stream",
    r"_ZNS?t?14basic_(i|o)?fstream|_ZNSt13basic_filebuf": "a file stream",
    r"_ZNSt10filesystem": "std::filesystem",
    r"_ZN3fmt2v\d+(5print|6vprint)|_ZN6spdlog": "printing",
}
FORBIDDEN_CXX_RE = [(re.compile(pattern), what) for pattern, what in FORBIDDEN_CXX.items()]


def undefined_symbols(archive: Path) -> list[tuple[str, str]]:
    """(object, symbol) for every strong undefined symbol."""
    text = subprocess.run(["nm", "-u", "-A", str(archive)], check=True, capture_output=True, text=True).stdout
    found = []
    for line in text.splitlines():
        place, _, rest = line.partition(": ")
        fields = rest.split()
        if len(fields) == 2 and fields[0] == "U":
            found.append((place.rsplit(":", 1)[-1], fields[1].split("@")[0]))
    return found


def why_forbidden(symbol: str) -> str | None:
    if symbol.startswith("_Z"):
        return next((what for pattern, what in FORBIDDEN_CXX_RE if pattern.match(symbol)), None)
    return "a call into the world" if FORBIDDEN_C.match(symbol) else None


def main() -> int:
    archives = [Path(name) for name in sys.argv[1:]]
    if not archives:
        print(__doc__, file=sys.stderr)
        return 2
    problems = []
    for archive in archives:
        if not archive.is_file():
            problems.append(f"{archive}: does not exist, so its purity is not proven")
            continue
        for member, symbol in undefined_symbols(archive):
            reason = why_forbidden(symbol)
            if reason:
                problems.append(f"{archive.name}({member}): {symbol}: {reason}")
    return report("pure_symbols", problems, f"{len(archives)} archives are pure")


if __name__ == "__main__":
    sys.exit(main())
