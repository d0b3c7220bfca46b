package gcpacer

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// mapping is a part of the address space.
type mapping struct{ begin, end uintptr }

// fixedEnd is the end of the addresses at which a program lies that is linked for one place.
const fixedEnd = 1 << 32

// programMappings are the parts of the program's file that nobody writes, code and constants, as
// /proc/self/maps lists them; none of a position-independent program, whose constants the loader
// has changed in memory.
func programMappings(maps, program string) []mapping {
	var out []mapping
	for line := range strings.Lines(maps) {
		f := strings.Fields(line)
		if len(f) != 6 || f[5] != program || f[1] != "r-xp" && f[1] != "r--p" {
			continue
		}
		var m mapping
		if _, err := fmt.Sscanf(f[0], "%x-%x", &m.begin, &m.end); err == nil && m.end <= fixedEnd {
			out = append(out, m)
		}
	}
	return out
}

// releaseProgramPages takes the pages of the program's file out of this process. The start, which
// sets every kind and role up, goes through most of the program; at rest a quarter is used. A page
// that is needed comes back at its next use, from the page cache, where all of them stay as long as
// the kernel has no better use for the memory.
func releaseProgramPages() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	for _, m := range programMappings(string(maps), program) {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.begin, m.end-m.begin, syscall.MADV_DONTNEED); errno !=
			0 {
			return fmt.Errorf("madvise: %w", errno)
		}
	}
	return nil
}
