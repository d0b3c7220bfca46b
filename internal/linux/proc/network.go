package proc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// NetworkInterfaces reads the traffic of the network interfaces in the namespace of process pid,
// without loopback. pid 0 is the caller.
func NetworkInterfaces(root string, pid int) ([]usage.NetworkInterface, error) {
	name := "self"
	if pid > 0 {
		name = strconv.Itoa(pid)
	}
	b, err := os.ReadFile(filepath.Join(root, "proc", name, "net/dev"))
	if err != nil {
		return nil, fmt.Errorf("network of process %s: %w", name, err)
	}
	var out []usage.NetworkInterface
	for line := range strings.Lines(string(b)) {
		name, rest, ok := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if name = strings.TrimSpace(name); !ok || len(f) < 12 || name == "lo" {
			continue
		}
		n := func(i int) uint64 { v, _ := strconv.ParseUint(f[i], 10, 64); return v }
		out = append(out, usage.NetworkInterface{
			Name: name, RxBytes: n(0), RxPackets: n(1), RxErrors: n(2), RxDropped: n(3), TxBytes: n(8), TxPackets: n(9),
			TxErrors: n(10), TxDropped: n(11),
		})
	}
	return out, nil
}

// DefaultInterface names the interface of the default route; empty when there is none.
func DefaultInterface(root string) string {
	for line := range strings.Lines(first(root, "proc/self/net/route")) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return f[0]
		}
	}
	return ""
}

// Space adds up the disk space of dir and everything below it on the same file system; files that
// vanish meanwhile are left out. 0 if dir does not exist.
func Space(dir string) (usage.Space, error) {
	var s usage.Space
	var root unix.Stat_t
	if err := unix.Lstat(dir, &root); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return s, nil
		}
		return s, fmt.Errorf("space of %s: %w", dir, err)
	}
	linked := map[uint64]bool{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return nil
		}
		if st.Dev != root.Dev {
			if e.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if st.Nlink > 1 && !e.IsDir() {
			if linked[st.Ino] {
				return nil
			}
			linked[st.Ino] = true
		}
		s.Inodes++
		s.Bytes += uint64(st.Blocks) * 512
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("space of %s: %w", dir, err)
	}
	return s, nil
}

// BlockSize returns the size of a block device in bytes.
func BlockSize(path string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // read only
	n, err := f.Seek(0, io.SeekEnd)
	return uint64(max(n, 0)), err
}

// CPUs is the shape of the processors.
type CPUs struct{ Cores, Sockets int64 }

// Topology counts physical cores and sockets; one of each if the kernel does not report them.
func Topology(root string) CPUs {
	cores, sockets := map[string]bool{}, map[string]bool{}
	dirs, _ := filepath.Glob(filepath.Join(root, "sys/devices/system/cpu/cpu[0-9]*/topology"))
	for _, d := range dirs {
		socket, core := first(d, "physical_package_id"), first(d, "core_id")
		sockets[socket], cores[socket+"/"+core] = true, true
	}
	return CPUs{Cores: max(1, int64(len(cores))), Sockets: max(1, int64(len(sockets)))}
}
