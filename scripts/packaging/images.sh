# shellcheck shell=bash
# Images with cxxrun, by the tools of a root, on a base that is another one; a job runs in each. For scripts/release.
of_images=(apptainer base-files bash buildah coreutils crun dash findutils iproute2 libc-bin netavark procps python3 util-linux)

# by_apptainer DIR BASE, by_buildah DIR BASE: an image of the directory BASE with the archive of DIR, and a job in it
by_apptainer() {
  # In a user namespace root has all that Apptainer asks for, whatever the machine has taken from him.
  in_root images unshare --user --map-root-user sh -euc '
    touch /etc/localtime  # of the image, too
    cd "$1"
    apptainer --quiet build --build-arg BOOTSTRAP=localimage --build-arg BASE="$2" "$3/cxxrun.sif" "$4"
    apptainer --quiet exec "$3/cxxrun.sif" sh "$3/job" /opt/cxxrun/bin "$5"' \
    sh "$1" "$2" "$work" "$work"/cxxrun-*/share/cxxrun/cxxrun.def $((++port)) >"$work/said" 2>&1 ||
    { cat "$work/said"; fail "no job in an image of cxxrun.def"; }
}

by_buildah() {
  in_root images sh -euc '
    export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
    buildah="buildah --root $3/storage --runroot $3/running"
    few="--ulimit nofile=1024:1024 --ulimit nproc=4096:4096"  # more than the machine allows is asked for without
    base=$($buildah from scratch)
    $buildah copy --quiet "$base" "$2" /
    $buildah commit --quiet "$base" base
    $buildah build --quiet $few --build-arg BASE=localhost/base --file "$4" --tag cxxrun "$1"
    made=$($buildah from $few localhost/cxxrun)
    $buildah copy --quiet "$made" "$3/job" /job
    $buildah run "$made" sh /job /opt/cxxrun/bin "$5"' \
    sh "$1" "$2" "$work" "$work"/cxxrun-*/share/cxxrun/Containerfile $((++port)) >"$work/said" 2>&1 ||
    { cat "$work/said"; fail "no job in an image of the Containerfile"; }
}

run_in_images() {  # DIR
  local base each
  if ! made images || ! made deb12_user; then
    echo "not tested: images (scripts/release --roots fetches what they are made with)"
    return
  fi
  work=$(mktemp -d)
  two_nodes "$work"
  tar -xzf "$1"/cxxrun-*.tar.gz -C "$work"
  base=$(realpath "$(scripts/debian_root path deb12_user)")
  for each in by_apptainer by_buildah; do $each "$(realpath "$1")" "$base"; done
  rm -rf "$work"
  echo "images: two nodes run in that of cxxrun.def ($(in_root images apptainer --version)) and that of the Containerfile" \
    "($(in_root images buildah --version | cut -d' ' -f-3))"
}
