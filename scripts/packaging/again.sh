# shellcheck shell=bash
# Whether a commit always gives the same bits. For scripts/release.

# make_again DIR: everything once more, of a clone elsewhere and without a compiler cache
make_again() {
  local elsewhere
  elsewhere=$(mktemp -d)
  git clone -q . "$elsewhere/tree"
  [ -z "$(git status --porcelain --untracked-files=no)" ] || fail "the tree is not what is committed"
  mkdir "$elsewhere/tree/build"
  ln -s "$(realpath "$(dirname "$(scripts/debian_root path sysroot11)")")" "$elsewhere/tree/build/roots"
  CCACHE_DISABLE=1 "$elsewhere/tree/scripts/release" --make || fail "it is not made a second time"
  diff "$1/SHA256SUMS" "$elsewhere/tree/$1/SHA256SUMS" || fail "other bits the second time: $elsewhere"
  rm -rf "$elsewhere"
  echo "$1: the same bits twice"
}
