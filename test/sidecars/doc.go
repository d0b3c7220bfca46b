// Package sidecars plays the CSI project's own programs, unchanged, against `gantry up`: the
// external-provisioner, -attacher and -resizer, and the external-snapshotter with its controller
// and kinds.
//
// In: what hack/sidecars.sh builds in build/sidecars from the module of its own in upstream/. Each
// program runs as a process with the ServiceAccount and the roles that it brings along. Out: claims
// that are bound, attached, made bigger, copied into snapshots and restored; a skipped test where
// the programs are not built, or without root.
package sidecars
