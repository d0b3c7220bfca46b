// Package e2e runs the built binary as a user does: `gantry up`, stock kubectl, real containers.
//
// The tests need root and what `make build` puts into build/bin (GANTRY_BIN names another folder);
// without either they are skipped and say so. Each cluster has its own data directory, ports,
// bridge and address range, and leaves nothing behind: that is checked at its end.
package e2e
