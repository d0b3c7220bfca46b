package containerd

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/internal/instance"
)

// RunningInstances returns the data directories of the instances on this machine whose containerd
// accepts connections from this user, sorted. Instances with a StateDir of their own are not found.
func RunningInstances() []string { return runningIn(filepath.Dir(instance.StateDir("/"))) }

func runningIn(dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "*", "containerd.toml"))
	if err != nil {
		return nil // the only error is a bad pattern
	}
	var out []string
	for _, file := range files {
		conn, err := net.Dial("unix", filepath.Join(filepath.Dir(file), "containerd.sock"))
		if err != nil {
			continue
		}
		_ = conn.Close() // it only tested whether something listens
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(raw)) {
			if root, ok := strings.CutPrefix(strings.TrimSpace(line), "root = "); ok {
				if data, ok := strings.CutSuffix(strings.Trim(root, `'"`), "/containerd/root"); ok {
					out = append(out, data)
				}
				break
			}
		}
	}
	slices.Sort(out)
	return out
}
