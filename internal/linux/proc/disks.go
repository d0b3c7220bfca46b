package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// sector is what /proc/diskstats counts in, whatever the disk's own sectors are, in bytes.
const sector = 512

// Disks returns the machine's whole disks with what was read and written since boot, without RAM
// disks and loop devices. Empty if the kernel does not report it.
func Disks(root string) []usage.Device {
	raw, err := os.ReadFile(filepath.Join(root, "proc/diskstats"))
	if err != nil {
		return nil
	}
	var out []usage.Device
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 10 || strings.HasPrefix(f[2], "loop") || strings.HasPrefix(f[2], "ram") || strings.HasPrefix(f[2],
			"zram") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, "sys/block", f[2])); err != nil {
			continue // a partition
		}
		d := usage.Device{Name: "/dev/" + f[2]}
		bad := false
		for i, to := range map[int]*uint64{0: &d.Major, 1: &d.Minor, 3: &d.Reads, 5: &d.ReadBytes, 7: &d.Writes,
			9: &d.WriteBytes} {
			n, err := strconv.ParseUint(f[i], 10, 64)
			*to, bad = n, bad || err != nil
		}
		if d.ReadBytes, d.WriteBytes = d.ReadBytes*sector, d.WriteBytes*sector; !bad {
			out = append(out, d)
		}
	}
	return out
}
