package csidriver

import (
	"slices"
	"strings"
	"testing"
)

// A file system that the kernel has set read-only is told from a mount that was asked for so.
func TestMountsAreRead(t *testing.T) {
	const text = `1 0 7:1 / /a\040b rw,relatime shared:1 - ext4 /dev/loop1 ro,errors=remount-ro
2 0 7:2 / /ro ro,relatime - ext4 /dev/loop2 rw
broken line
3 0 7:3 / /ro rw - ext4 /dev/loop3 rw
`
	got := parseMounts(strings.NewReader(text), []string{"", "/a b", "/ro", "/other"})
	want := []mountInfo{{path: "/a b", device: "7:1", fsIsFixed: true}, {path: "/ro", device: "7:3"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	read := parseMounts(strings.NewReader(text[:strings.Index(text, "broken")]), []string{"/ro"})
	if len(read) != 1 || !read[0].readOnly || read[0].fsIsFixed {
		t.Errorf("got %+v, want a mount for reading", read)
	}
	fixed := filesystemHealth(got[:1])
	if len(fixed) == 0 || fixed[0].GetReason() != reasonFilesystemReadOnly {
		t.Errorf("got %v, want that the file system is read-only", fixed)
	}
}
