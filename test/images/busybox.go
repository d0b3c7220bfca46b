package images

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Busybox has Debian's static busybox with a link for every applet, /etc/passwd, /tmp, and sh as
// its command.
func Busybox() (v1.Image, error) {
	program, err := busybox()
	if err != nil {
		return nil, err
	}
	return cached("busybox", append([]byte("2"), program...), func() (v1.Image, error) { return newBusybox(program) })
}

func busybox() ([]byte, error) {
	at, err := exec.LookPath("busybox")
	if err != nil {
		return nil, errors.New("busybox is missing: make deps (Debian: apt-get install busybox-static)")
	}
	return os.ReadFile(at)
}

func newBusybox(program []byte) (v1.Image, error) {
	list, err := exec.Command("busybox", "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("busybox --list: %w", err)
	}
	files := append(base(), File{Path: "bin/busybox", Mode: 0o755, Body: program})
	for _, applet := range strings.Fields(string(list)) {
		if applet != "busybox" {
			files = append(files, File{Path: "bin/" + applet, Mode: 0o777, Link: "busybox"})
		}
	}
	return New(files, v1.Config{Cmd: []string{"sh"}, Env: []string{path}})
}

// base are the directories and files that any image has.
func base() []File {
	dir := os.ModeDir | 0o755
	return []File{
		{Path: "bin/", Mode: dir},
		{Path: "etc/", Mode: dir},
		{Path: "etc/passwd", Mode: 0o644,
			Body: []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n")},
		{Path: "etc/group", Mode: 0o644, Body: []byte("root:x:0:\nnogroup:x:65534:\n")},
		{Path: "home/", Mode: dir, UID: 65534},
		{Path: "root/", Mode: os.ModeDir | 0o700},
		{Path: "tmp/", Mode: os.ModeDir | os.ModeSticky | 0o777},
		{Path: "usr/", Mode: dir}, {Path: "usr/bin/", Mode: dir}, {Path: "usr/sbin/", Mode: dir},
		{Path: "usr/local/", Mode: dir}, {Path: "usr/local/bin/", Mode: dir},
		{Path: "var/", Mode: dir}, {Path: "var/log/", Mode: dir}, {Path: "var/run", Mode: 0o777, Link: "/run"},
		{Path: "run/", Mode: dir},
	}
}

// NonRoot is Busybox with the user 1234.
func NonRoot() (v1.Image, error) {
	img, err := Busybox()
	if err != nil {
		return nil, err
	}
	return WithConfig(img, v1.Config{Cmd: []string{"sh"}, Env: []string{path}, User: "1234"})
}

// Httpd is Busybox whose entry point serves http on port 8080.
func Httpd() (v1.Image, error) {
	img, err := Busybox()
	if err != nil {
		return nil, err
	}
	return WithConfig(img, v1.Config{Entrypoint: []string{"httpd", "-f", "-p", "8080"}, Env: []string{path}})
}
