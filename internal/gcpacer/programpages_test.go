package gcpacer

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Only what nobody writes of the program's own file is given back.
func TestProgramMappings(t *testing.T) {
	const maps = `00400000-0467d000 r-xp 00000000 fe:00 1234 /usr/bin/gantry
0467d000-0977f000 r--p 0427d000 fe:00 1234 /usr/bin/gantry
0977f000-0994f000 rw-p 0937f000 fe:00 1234 /usr/bin/gantry
c000000000-c008000000 rw-p 00000000 00:00 0
7f0000000000-7f0000001000 r--p 00000000 fe:00 99 /usr/bin/gantry-data
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0 [vdso]
`
	want := []mapping{{0x400000, 0x467d000}, {0x467d000, 0x977f000}}
	if got := programMappings(maps, "/usr/bin/gantry"); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	const independent = `5587d1200000-5587d5400000 r-xp 00000000 fe:00 1234 /usr/bin/gantry
5587d5400000-5587d5600000 r--p 04200000 fe:00 1234 /usr/bin/gantry
`
	if got := programMappings(independent, "/usr/bin/gantry"); len(got) > 0 {
		t.Errorf("got %x of a position-independent program, want none: its constants were relocated", got)
	}
}

// A process goes on after it gave the pages of its program back, with fewer of them.
func TestProgramPagesAreReleased(t *testing.T) {
	before := filePages(t)
	if err := releaseProgramPages(); err != nil {
		t.Fatal(err)
	}
	if after := filePages(t); after >= before {
		t.Errorf("got %d KiB of files in memory after %d, want less", after, before)
	}
}

// filePages is RssFile of this process, in KiB.
func filePages(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if f[0] != "RssFile:" {
			continue
		}
		for _, c := range f[1] {
			kib = kib*10 + int(c-'0')
		}
	}
	return kib
}
