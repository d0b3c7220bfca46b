package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Cgroup is the cgroup of a process, as the kubelet accounts for it: with cgroup v2 its only one,
// with v1 systemd's, or else that of cpu and memory, which have to be the same.
func Cgroup(root string, pid int) (string, error) {
	file := filepath.Join(root, "proc", strconv.Itoa(pid), "cgroup")
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	paths := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for _, controller := range strings.Split(f[1], ",") {
			paths[controller] = f[2]
		}
	}
	cpu, hasCPU := paths["cpu"]
	memory, hasMemory := paths["memory"]
	unified, isUnified := paths[""]
	systemd, hasSystemd := paths["name=systemd"]
	switch {
	case !hasCPU && !hasMemory && isUnified:
		return unified, nil
	case !hasCPU || !hasMemory:
		return "", fmt.Errorf("%s: cgroups of cpu and memory are not named", file)
	case cpu != memory:
		return "", fmt.Errorf("%s: cpu and memory cgroup hierarchy not unified. cpu: %s, memory: %s", file, cpu, memory)
	case hasSystemd:
		return systemd, nil
	}
	return cpu, nil
}
