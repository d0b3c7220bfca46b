// Package cmd is the command tree of the binary: Root lists the verbs, each of which is a package
// below that exports New, and Main runs the one that the arguments name, or kubectl or containerd,
// which live in the same binary. It is called by cmd/gantry only.
package cmd
