#!/bin/sh
# Puts the library that perf_analyzer is linked to, and no Python package has, into a folder.
# Without Debian's packages its test is skipped.
set -eu
command -v apt-get >/dev/null && command -v dpkg >/dev/null || exit 0
folder=$1/libb64
mkdir -p "$folder"
cd "$folder"
apt-get download -qq libb64-0d >/dev/null 2>&1 \
	|| { apt-get update -qq && apt-get download -qq libb64-0d >/dev/null 2>&1; } \
	|| { echo "libb64-0d cannot be downloaded: the test with perf_analyzer is skipped" >&2; exit 0; }
dpkg -x libb64-0d_*.deb .
