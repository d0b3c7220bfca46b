// Package instance names one Gantry on a machine, so that two of them never share a socket, a table
// or a directory.
//
// In: the data directory. Out: a short stable id and the directory under /run for what lives no
// longer than the machine is up.
package instance

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
)

// ID is eight hex digits made of the data directory's absolute path: the same directory is the same
// instance.
func ID(dataDir string) string {
	if abs, err := filepath.Abs(dataDir); err == nil {
		dataDir = abs
	}
	sum := sha256.Sum256([]byte(filepath.Clean(dataDir)))
	return hex.EncodeToString(sum[:4])
}

// StateDir is where the instance keeps sockets, network namespaces and what else ends with the
// machine's run. It is short: a unix socket's path has at most 107 bytes.
func StateDir(dataDir string) string { return "/run/gantry/" + ID(dataDir) }
