#!/usr/bin/env bash
# Installs the Debian packages that are missing, and only those.
# usage: tools/install_deps.sh [build|test|check]   what is needed for ./run build, ./run test, ./run check (the default)
# Exit status 3: packages are missing and this user cannot install them; the command to run is printed.
set -euo pipefail

build=(g++ cmake ninja-build ccache mold pkg-config python3 git libboost1.81-dev libexpected-dev libfmt-dev libspdlog-dev
       nlohmann-json3-dev libcli11-dev libxxhash-dev flatbuffers-compiler libflatbuffers-dev)
test=(libgtest-dev libgmock-dev librapidcheck-dev)
check=(clang-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev llvm-19 binutils)

case "${1:-check}" in
  build) wanted=("${build[@]}") ;;
  test) wanted=("${build[@]}" "${test[@]}") ;;
  check) wanted=("${build[@]}" "${test[@]}" "${check[@]}") ;;
  *) echo "usage: tools/install_deps.sh [build|test|check]" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "install_deps: this is not a Debian system; please provide what these packages hold: ${wanted[*]}" >&2
  exit 0
fi

# Optional: without them a build is slower, not different.
optional=" ccache mold "
installed="$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/^installed //p' || true)"
missing=()
for package in "${wanted[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

if [[ $(id -u) -ne 0 ]]; then
  needed=()
  for package in "${missing[@]}"; do
    [[ $optional == *" $package "* ]] || needed+=("$package")
  done
  [[ ${#needed[@]} -gt 0 ]] || exit 0
  echo "install_deps: packages are missing; run:" >&2
  echo "sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends ${missing[*]}'" >&2
  exit 3
fi

echo "install_deps: installing ${missing[*]}" >&2
install=(apt-get install -y --no-install-recommends "${missing[@]}")
export DEBIAN_FRONTEND=noninteractive
# A fresh system has no lists, an old one has stale lists: both show as a failing install.
if ! apt-cache show "${missing[@]}" >/dev/null 2>&1 || ! "${install[@]}" >&2; then
  apt-get update >&2
  "${install[@]}" >&2
fi
