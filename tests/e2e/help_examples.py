#!/usr/bin/env python3
"""What --help shows can be typed: the shape of the explore example exists."""
import os
import re
import subprocess
import sys

KVFERRY = os.environ["KVFERRY_BINARY"]


def said_by(*words: str) -> str:
    done = subprocess.run([KVFERRY, *words], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"kvferry {' '.join(words)}: exit status {done.returncode}: {done.stderr}")
    return done.stdout


named = re.findall(r"kvferry explore --shape (\S+)", said_by("--help"))
shapes = said_by("explore", "--list-shapes").split()
if not named:
    sys.exit("kvferry --help shows no explore example")
for name in named:
    if name not in shapes:
        sys.exit(f"kvferry --help shows --shape {name}, which explore --list-shapes does not know")
