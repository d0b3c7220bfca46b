package proc

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// stateListen is the state of a socket that takes connections, as /proc/PID/net/tcp has it.
const stateListen = "0A"

// Listening returns the listening TCP sockets in the network namespace of process pid:
// address:port, with * for all addresses; sorted, without duplicates.
func Listening(root string, pid int) ([]string, error) {
	var out []string
	for _, name := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(filepath.Join(root, "proc", strconv.Itoa(pid), "net", name))
		if err != nil && name == "tcp6" && os.IsNotExist(err) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("sockets of process %d: %w", pid, err)
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 4 || f[3] != stateListen {
				continue
			}
			if s, ok := parseSocket(f[1]); ok {
				out = append(out, s)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// parseSocket parses 0100007F:1F90. Addresses are 32-bit words in the machine's byte order, which
// is little endian on all supported machines.
func parseSocket(text string) (string, bool) {
	a, p, ok := strings.Cut(text, ":")
	port, err := strconv.ParseUint(p, 16, 16)
	raw, bad := hex.DecodeString(a)
	if !ok || err != nil || bad != nil || len(raw)%4 != 0 {
		return "", false
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(raw)
	if !ok {
		return "", false
	}
	addr = addr.Unmap()
	if addr.IsUnspecified() {
		return fmt.Sprintf("*:%d", port), true
	}
	return netip.AddrPortFrom(addr, uint16(port)).String(), true
}
