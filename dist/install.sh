#!/bin/sh
# Installs roam6 from a release: finds the archive for this machine, verifies it, and copies its files. It runs nothing that it
# has downloaded but the program's own --version.
# usage: install.sh [--from FOLDER | --url URL] [--key FILE | --no-signature] [--prefix FOLDER]
#        install.sh --uninstall [--prefix FOLDER]
#   --from FOLDER     folder with the archive, SHA256SUMS and SHA256SUMS.asc; default: the folder of this script, or the one above
#   --url URL         gets them from there by curl or wget
#   --key FILE        the release key, as gpgv reads it (roam6-archive-keyring.gpg); default: the one beside SHA256SUMS.
#                     Compare the fingerprint that is printed with the one that the project publishes
#   --no-signature    verifies the checksum only: an attacker who can change the archive can change that too
#   --prefix FOLDER   default: /usr/local
set -eu

die() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }

from="" url="" key="" signature=yes prefix=/usr/local uninstall=""
while [ $# -gt 0 ]; do
  case $1 in
    --from|--url|--key|--prefix)
      [ $# -ge 2 ] || die "$1 needs a value"
      case $1 in --from) from=$2 ;; --url) url=${2%/} ;; --key) key=$2 ;; --prefix) prefix=${2%/} ;; esac
      shift ;;
    --no-signature) signature= ;;
    --uninstall) uninstall=yes ;;
    --help|-h) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit ;;
    *) die "unknown argument '$1'; see --help" ;;
  esac
  shift
done
list=$prefix/share/doc/roam6/installed

if [ -n "$uninstall" ]; then
  [ -e "$list" ] || die "no roam6 was installed in $prefix by this script"
  while read -r file; do rm -f "$prefix/$file"; done < "$list"
  rm -f "$list"
  echo "removed roam6 from $prefix; /etc/roam6 and /var/lib/roam6 are kept"
  exit
fi

case $(uname -m) in
  x86_64|amd64) device=x86_64 ;;
  aarch64|arm64) device=aarch64 ;;
  armv7*|armv8l) device=armv7 ;;
  mips*) [ "$(printf '\001\000' | od -An -tx2 | tr -d ' ')" = 0001 ] || die "no archive for big-endian MIPS; run: scripts/cross mips build -p roam6"
    device=mipsel ;;
  *) die "no archive for $(uname -m); build it: make build" ;;
esac
[ "$(uname -s)" = Linux ] || die "roam6 needs Linux"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$url" ]; then
  fetch() {
    if command -v curl >/dev/null; then curl -fsSL -o "$work/$1" "$url/$1"; else wget -q -O "$work/$1" "$url/$1"; fi
  }
  fetch SHA256SUMS || die "cannot get $url/SHA256SUMS"
  # A mirror decides on these names: only what is an archive of roam6 for this machine counts.
  name=$(sed -n "s/^[0-9a-f]\{64\}  \(roam6-[0-9A-Za-z.+~-]*-$device-linux-musl\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS" | head -n 1)
  [ -n "$name" ] || die "$url/SHA256SUMS lists no archive for $device"
  echo "+ get $url/$name"
  fetch "$name" || die "cannot get $url/$name"
  for file in SHA256SUMS.asc roam6-archive-keyring.gpg; do fetch "$file" 2>/dev/null || rm -f "$work/$file"; done
else
  here=$(cd "$(dirname "$0")" && pwd)
  for folder in "${from:-$here}" "$here/.."; do [ ! -e "$folder/SHA256SUMS" ] || break; done
  [ -e "$folder/SHA256SUMS" ] || die "no SHA256SUMS in ${from:-$here}; use --from or --url"
  for file in "$folder"/SHA256SUMS "$folder"/SHA256SUMS.asc "$folder"/roam6-archive-keyring.gpg "$folder"/roam6-*-"$device"-linux-musl.tar.gz; do
    [ ! -e "$file" ] || cp "$file" "$work/"
  done
  name=$(find "$work" -name "roam6-*-$device-linux-musl.tar.gz" -exec basename {} \; | sort | tail -n 1)
  [ -n "$name" ] || die "no archive for $device in $folder"
fi

cd "$work"
if [ -n "$signature" ]; then
  [ -e SHA256SUMS.asc ] || die "the release is not signed; --no-signature installs it all the same"
  command -v gpgv >/dev/null || die "gpgv is missing; install it, or use --no-signature"
  [ -n "$key" ] || key=$work/roam6-archive-keyring.gpg
  [ -e "$key" ] || die "no release key; use --key FILE"
  gpgv --keyring "$key" SHA256SUMS.asc SHA256SUMS 2> gpgv.log || { cat gpgv.log >&2; die "the signature of SHA256SUMS is not valid"; }
  grep -i 'using\|good signature' gpgv.log || true
fi
grep "  $name\$" SHA256SUMS > expected || die "SHA256SUMS does not list $name"
sha256sum -c expected >/dev/null || die "$name is damaged: its SHA-256 is not that of SHA256SUMS"
echo "verified $name"

tar -xzf "$name"
cd "${name%.tar.gz}"
./bin/roam6 --version >/dev/null || die "the program does not run here"
mkdir -p "$prefix/share/doc/roam6"
find bin lib share -type f | sort > "$work/files"
while read -r file; do
  mkdir -p "$prefix/${file%/*}"
  # Renamed into place: a running program is not overwritten.
  cp -p "$file" "$prefix/$file.new"
  mv "$prefix/$file.new" "$prefix/$file"
done < "$work/files"
cp "$work/files" "$list"
[ "$prefix" = /usr ] || sed -i "s|/usr/bin/roam6|$prefix/bin/roam6|" "$prefix"/lib/systemd/system/roam6*.service
echo "+ installed $("$prefix/bin/roam6" --version) in $prefix; remove it by: install.sh --uninstall --prefix $prefix"
echo "next: roam6 setup on a home agent, roam6 join on a mobile router (by hand: examples in $prefix/share/doc/roam6/examples)"
