package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// v2 is the one hierarchy of cgroup v2.
type v2 struct{ mount string }

// wantedControllers controllers are switched on for all children down the path, as far as the
// kernel has them.
var wantedControllers = []string{"cpu", "cpuset", "hugetlb", "io", "memory", "pids"}

func (h v2) version() int    { return 2 }
func (h v2) roots() []string { return []string{h.mount} }

func (h v2) ensure(p string, v Values) error {
	return whileControllersVanish(func() error { return h.ensureOnce(p, v) })
}

// ensureAttempts is how often a path is made before the error counts.
const ensureAttempts = 10

// whileControllersVanish does something again when a file or a controller was gone: where systemd
// keeps the hierarchy it takes back, at any time until a container is below, what was passed on to
// a slice that it did not ask for.
func whileControllersVanish(do func() error) error {
	var err error
	for range ensureAttempts {
		if err = do(); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

func (h v2) ensureOnce(p string, v Values) error {
	if err := h.delegate(h.mount); err != nil {
		return err
	}
	for _, level := range levels(p) {
		dir := filepath.Join(h.mount, level)
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			return err
		}
		if err := h.delegate(dir); err != nil {
			return err
		}
	}
	return h.write(filepath.Join(h.mount, p), v)
}

func (h v2) update(p string, v Values) error { return h.write(filepath.Join(h.mount, p), v) }

// delegate lets children of dir have the wanted controllers.
func (h v2) delegate(dir string) error {
	have, err := read(dir, "cgroup.controllers")
	if err != nil {
		return err
	}
	on, err := read(dir, "cgroup.subtree_control")
	if err != nil {
		return err
	}
	available, active := strings.Fields(have), strings.Fields(on)
	for _, c := range wantedControllers {
		if !slices.Contains(available, c) || slices.Contains(active, c) {
			continue
		}
		if err := write(dir, "cgroup.subtree_control", "+"+c); err != nil {
			return fmt.Errorf("%w (a cgroup that holds processes cannot pass controllers on: move them into a child)",
				err)
		}
	}
	return nil
}

func (h v2) write(dir string, v Values) error {
	files := map[string]string{}
	if v.Shares != nil {
		files["cpu.weight"] = strconv.FormatUint(Weight(*v.Shares), 10)
	}
	if v.Quota != nil {
		period := uint64(100000)
		if v.Period != nil {
			period = *v.Period
		}
		files["cpu.max"] = orMax(*v.Quota) + " " + strconv.FormatUint(period, 10)
	}
	if v.Memory != nil {
		files["memory.max"] = orMax(*v.Memory)
	}
	if v.Pids != nil {
		files["pids.max"] = orMax(*v.Pids)
	}
	for size, limit := range v.Hugepages {
		name := "hugetlb." + pageName(size) + ".max"
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			files[name] = strconv.FormatInt(limit, 10)
		}
	}
	for name, value := range v.Unified {
		if filepath.Base(name) != name {
			return fmt.Errorf("unified: %q is not a file name", name)
		}
		files[name] = value
	}
	for _, name := range sorted(files) {
		if err := write(dir, name, files[name]); err != nil {
			return err
		}
	}
	return nil
}

func (h v2) usage(p string) (Usage, error) {
	dir := filepath.Join(h.mount, p)
	if _, err := os.Stat(dir); err != nil {
		return Usage{}, err
	}
	stat := readStat(dir, "memory.stat")
	u := Usage{
		CPUNanos:         readStat(dir, "cpu.stat")["usage_usec"] * 1000,
		MemoryBytes:      readUint(dir, "memory.current"),
		RSSBytes:         stat["anon"],
		PageFaults:       stat["pgfault"],
		MajorPageFaults:  stat["pgmajfault"],
		MemoryLimitBytes: readUint(dir, "memory.max"),
		Pids:             readUint(dir, "pids.current"),
	}
	u.WorkingSetBytes = subtract(u.MemoryBytes, stat["inactive_file"])
	return u, nil
}

// kill kills everything below dir, at once if the kernel supports it (5.14), else process by
// process.
func (h v2) kill(dir string) error {
	if err := write(dir, "cgroup.kill", "1"); err == nil {
		return nil
	}
	return killAll(dir)
}

// Weight converts cpu.shares into cpu.weight as runc 1.3 and later do: a curve through (2, 1),
// (1024, 100) and (262144, 10000); 0 stays 0.
func Weight(shares uint64) uint64 {
	switch {
	case shares == 0:
		return 0
	case shares <= 2:
		return 1
	case shares >= 262144:
		return 10000
	}
	l := math.Log2(float64(shares))
	return uint64(math.Ceil(math.Pow(10, (l*l+125*l)/612-7.0/34)))
}
