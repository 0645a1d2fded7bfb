# shellcheck shell=bash
# Settings of all release scripts, which source this file: names, version, moment of the build, and where products go.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=dist/release.env
. dist/release.env
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
commit=$(git rev-parse HEAD)
# Products depend on the commit only: https://reproducible-builds.org/specs/source-date-epoch/
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
out=target/packages
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C NAME SUMMARY MAINTAINER HOMEPAGE REPOSITORY LICENSE version commit out
umask 022
mkdir -p "$out"

die() { echo "${0##*/}: $*" >&2; exit 1; }

# ARGUMENT...: tar, whose octets depend on names and contents only.
reproducible_tar() {
  tar --format=gnu --sort=name --numeric-owner --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" \
    --mode=u+rwX,go=rX "$@"
}

# FILE...: detached signatures beside the files, by the key that $ROAM6_RELEASE_KEY names.
sign() {
  [ -n "${ROAM6_RELEASE_KEY-}" ] || { echo "release: no ROAM6_RELEASE_KEY: not signed: $*" >&2; return 0; }
  local file
  for file; do
    gpg --batch --yes --local-user "$ROAM6_RELEASE_KEY" --armor --detach-sign --output "$file.asc" "$file"
  done
}
