#!/usr/bin/env bash
# Installs the present build into a folder of its own and builds a project outside the tree against it: headers, CMake
# package and shared library are complete, and the two programs run.
set -euo pipefail

source_dir="$(cd "$(dirname "$0")/../.." && pwd)"
build_dir="$(dirname "${KVFERRY_BINARY:?set KVFERRY_BINARY to the kvferry binary of a build tree}")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

cmake --install "$build_dir" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
cp -r "$source_dir/examples" "$work/examples" # outside the tree for real
cmake -S "$work/examples/outside" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }

"$work/build/held_write"
echo "held_write: kept its promise"
"$work/build/two_processes" | tee "$work/run.log"
grep -q 'decode: "layer 1 of the second page"' "$work/run.log"

# docs/testing.md shows the very program that was built.
awk '/^```cpp$/ { show = 1; next } /^```$/ { exit } show' "$source_dir/docs/testing.md" >"$work/shown.cc"
if ! diff "$work/shown.cc" <(tail -n +3 "$source_dir/examples/outside/held_write.cc"); then
  echo "docs/testing.md and examples/outside/held_write.cc differ; copy the program into the document"
  exit 1
fi

# Nothing but the marked names leaves the library.
library="$(find "$work/prefix" -name 'libkvferry.so' | head -n 1)"
hidden="$(nm -D --defined-only -C "$library" | grep -c 'kvferry::core::' || true)"
if [ "$hidden" -ne 0 ]; then
  echo "libkvferry.so exports $hidden names of kvferry::core; mark only the public API with KVFERRY_API"
  exit 1
fi
echo "install_example: ok"
