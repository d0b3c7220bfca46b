package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is what does not change until a reboot.
type Machine struct {
	CPUs          int64
	MemoryBytes   uint64
	SwapBytes     uint64
	HugePages     map[string]int64 // bytes reserved per size, key as in resource names: "2Mi", "1Gi"
	MachineID     string
	SystemUUID    string
	BootID        string
	KernelVersion string
	OSImage       string
	UserNamespace bool // this process does not see all users: it runs in a user namespace
}

// Read reads the machine below root, "/" except in tests. What a container or a small image lacks
// (machine-id, DMI) stays empty; memory and processors are required.
func Read(root string) (Machine, error) {
	mem, err := meminfo(root)
	if err != nil {
		return Machine{}, err
	}
	cpus, err := processors(root)
	if err != nil {
		return Machine{}, err
	}
	m := Machine{
		CPUs: cpus, MemoryBytes: mem["MemTotal"], SwapBytes: mem["SwapTotal"], HugePages: hugePages(root),
		BootID:        first(root, "proc/sys/kernel/random/boot_id"),
		KernelVersion: first(root, "proc/sys/kernel/osrelease"),
		MachineID:     first(root, "etc/machine-id", "var/lib/dbus/machine-id"),
		OSImage:       prettyName(root),
		UserNamespace: inUserNamespace(first(root, "proc/self/uid_map")),
	}
	// The machine's own id, or what stands for it on machines without DMI; as upstream (and
	// cAdvisor) does.
	if m.SystemUUID = first(root, "sys/class/dmi/id/product_uuid", "proc/device-tree/vm,uuid"); m.SystemUUID == "" {
		m.SystemUUID = m.MachineID
	}
	return m, nil
}

// inUserNamespace says whether a uid_map maps anything else than all users to themselves. A kernel
// without user namespaces has no map.
func inUserNamespace(uidMap string) bool {
	return uidMap != "" && !slices.Equal(strings.Fields(uidMap), []string{"0", "0", "4294967295"})
}

// first returns the trimmed content of the first file that is there and not empty.
func first(root string, names ...string) string {
	for _, n := range names {
		if b, err := os.ReadFile(filepath.Join(root, n)); err == nil {
			if s := strings.TrimSpace(strings.Trim(string(b), "\x00")); s != "" {
				return s
			}
		}
	}
	return ""
}

// meminfo reads /proc/meminfo into bytes.
func meminfo(root string) (map[string]uint64, error) {
	path := filepath.Join(root, "proc/meminfo")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("memory of this machine: %w", err)
	}
	out := map[string]uint64{}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		name, rest, _ := strings.Cut(s.Text(), ":")
		f := strings.Fields(rest)
		if len(f) == 0 {
			continue
		}
		n, err := strconv.ParseUint(f[0], 10, 64)
		if err != nil {
			continue
		}
		if len(f) == 2 && f[1] == "kB" {
			n <<= 10
		}
		out[name] = n
	}
	if out["MemTotal"] == 0 {
		return nil, fmt.Errorf("memory of this machine: %s has no MemTotal", path)
	}
	return out, nil
}

// processors counts the online ones: /sys/devices/system/cpu/online, or the processor entries of
// /proc/cpuinfo.
func processors(root string) (int64, error) {
	if s := first(root, "sys/devices/system/cpu/online"); s != "" {
		return countList(s)
	}
	n := int64(0)
	for line := range strings.Lines(first(root, "proc/cpuinfo")) {
		if strings.HasPrefix(line, "processor") {
			n++
		}
	}
	if n == 0 {
		return 0, errors.New("processors of this machine: neither /sys/devices/system/cpu/online nor /proc/cpuinfo " +
			"tells")
	}
	return n, nil
}

// countList counts a kernel list such as 0-3,6.
func countList(s string) (int64, error) {
	n := int64(0)
	for _, part := range strings.Split(s, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.ParseInt(from, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processors of this machine: list %q: %w", s, err)
		}
		b := a
		if isRange {
			if b, err = strconv.ParseInt(to, 10, 64); err != nil {
				return 0, fmt.Errorf("processors of this machine: list %q: %w", s, err)
			}
		}
		n += b - a + 1
	}
	return n, nil
}

// hugePages reads what is reserved per page size.
func hugePages(root string) map[string]int64 {
	out := map[string]int64{}
	dirs, _ := filepath.Glob(filepath.Join(root, "sys/kernel/mm/hugepages/hugepages-*kB"))
	for _, d := range dirs {
		name := filepath.Base(d)
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(name, "hugepages-"), "kB"), 10, 64)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(first(d, "nr_hugepages"), 10, 64)
		if err != nil {
			continue
		}
		out[size(kb<<10)] = n * kb << 10
	}
	return out
}

func size(bytes int64) string {
	switch {
	case bytes >= 1<<30 && bytes%(1<<30) == 0:
		return strconv.FormatInt(bytes>>30, 10) + "Gi"
	case bytes >= 1<<20 && bytes%(1<<20) == 0:
		return strconv.FormatInt(bytes>>20, 10) + "Mi"
	}
	return strconv.FormatInt(bytes>>10, 10) + "Ki"
}

func prettyName(root string) string {
	text := first(root, "etc/os-release", "usr/lib/os-release")
	for line := range strings.Lines(text) {
		if v, found := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); found {
			return strings.Trim(v, `"'`)
		}
	}
	return "Linux"
}

// Disk is the state of one file system.
type Disk struct {
	CapacityBytes, AvailableBytes, UsedBytes uint64
	Inodes, InodesFree                       uint64
}

// StatFS reads the file system path is on.
func StatFS(path string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Disk{}, fmt.Errorf("file system of %s: %w", path, err)
	}
	b := uint64(s.Bsize)
	return Disk{CapacityBytes: s.Blocks * b, AvailableBytes: s.Bavail * b, UsedBytes: (s.Blocks - s.Bfree) * b,
		Inodes: s.Files, InodesFree: s.Ffree}, nil
}

// Device is the number of the device that a path is on.
func Device(path string) (uint64, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return 0, fmt.Errorf("device of %s: %w", path, err)
	}
	return s.Dev, nil
}
