// Package instance identifies one Gantry on a machine, so that two of them never share a socket, a
// table or a directory.
//
// In: the data directory. Out: a short stable id, and the directory under /run for what does not
// survive a reboot.
package instance

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
)

// ID returns eight hex digits derived from the absolute path of the data directory.
func ID(dataDir string) string {
	if abs, err := filepath.Abs(dataDir); err == nil {
		dataDir = abs
	}
	sum := sha256.Sum256([]byte(filepath.Clean(dataDir)))
	return hex.EncodeToString(sum[:4])
}

// StateDir returns the directory for sockets, network namespaces and other state that ends with the
// boot. It is short: a unix socket's path has at most 107 bytes.
func StateDir(dataDir string) string { return "/run/gantry/" + ID(dataDir) }
