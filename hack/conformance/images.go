package main

import (
	"context"
	"fmt"
	"io"
	"log" //nolint:depguard // the registry library takes a *log.Logger
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/gantry-project/gantry/test/images"
)

// host is the registry of the suite's images; the nodes use the one on loopback instead.
const host = "registry.k8s.io"

const environment = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// imageSet makes the images of certified tests from Debian's packages and upstream's programs.
type imageSet struct {
	tools   *tools
	pause   string // the program
	agnhost v1.Image
	only    []string // the images to make; empty: all
}

// makers returns what to make, by the last part of an image's name. Names and tags are those of the
// suite. The last two are for tests of Services that are not certified.
func (a *imageSet) makers() map[string]images.Make {
	return map[string]images.Make{
		"agnhost": a.base, "busybox": a.busybox, "nginx": images.Nginx, "nonroot": images.NonRoot,
		"pause":  a.pauseImage,
		"kitten": a.page("kitten"), "nautilus": a.page("nautilus"), "glibc-dns-testing": a.glibc,
		"nonewprivs": a.program("nonewprivs", "/usr/local/bin/nnp", os.ModeSetuid|os.ModeSetgid,
			v1.Config{Cmd: []string{"nnp"}, Env: []string{environment}}),
		"sample-apiserver": a.program("sample-apiserver", "/sample-apiserver", 0,
			v1.Config{Entrypoint: []string{"/sample-apiserver"}}),
		"etcd": a.program("etcd", "/usr/local/bin/etcd", 0,
			v1.Config{Cmd: []string{"etcd"}, Env: []string{environment}}),
		"distroless-iptables": func() (v1.Image, error) {
			return images.Debian("distroless-iptables", []string{"conntrack", "iptables"}, nil,
				v1.Config{Env: []string{environment}})
		},
		"hello-populator": a.populator,
		"regression-issue-74839": a.program("regression-issue-74839", "/regression-issue-74839", 0,
			v1.Config{Entrypoint: []string{"/regression-issue-74839"}}),
	}
}

// read returns a file of the machine as one of an image.
func read(from, to string, mode os.FileMode) (images.File, error) {
	body, err := os.ReadFile(from)
	return images.File{Path: strings.TrimPrefix(to, "/"), Mode: mode, Body: body}, err
}

// program returns a maker: Busybox with one of upstream's programs.
func (a *imageSet) program(name, at string, bits os.FileMode, config v1.Config) images.Make {
	return func() (v1.Image, error) {
		f, err := read(a.tools.path(name), at, bits|0o755)
		if err != nil {
			return nil, err
		}
		return withLayer(images.Busybox, []images.File{f}, config)
	}
}

// withLayer returns an image with additional files and its own configuration.
func withLayer(base images.Make, files []images.File, config v1.Config) (v1.Image, error) {
	img, err := base()
	if err != nil {
		return nil, err
	}
	if img, err = images.WithLayer(img, files); err != nil {
		return nil, err
	}
	return images.WithConfig(img, config)
}

func (a *imageSet) pauseImage() (v1.Image, error) {
	f, err := read(a.pause, "/pause", 0o755)
	if err != nil {
		return nil, err
	}
	return images.New([]images.File{f}, v1.Config{Entrypoint: []string{"/pause"}})
}

// populator makes an image of our own program: upstream's is no module that can be had.
func (a *imageSet) populator() (v1.Image, error) {
	f, err := read(a.tools.path("populator"), "/populator", 0o755)
	if err != nil {
		return nil, err
	}
	return images.New([]images.File{f}, v1.Config{Entrypoint: []string{"/populator"}})
}

func (a *imageSet) busybox() (v1.Image, error) {
	shell, err := read(a.tools.path("sh"), "/bin/sh", 0o755)
	if err != nil {
		return nil, err
	}
	bash, err := read("/bin/bash-static", "/bin/bash-static", 0o755)
	if err != nil {
		return nil, err
	}
	return withLayer(images.Busybox, []images.File{shell, bash},
		v1.Config{Cmd: []string{"sh"}, Env: []string{environment}})
}

// bash is the shell of images whose tests call programs that Busybox has too: its own shell would
// run its own.
var bash = images.File{Path: "bin/sh", Mode: 0o777, Link: "bash"}

var names = images.File{Path: "etc/nsswitch.conf", Mode: 0o644,
	Body: []byte("passwd: files\ngroup: files\nhosts: files dns\n")}

func (a *imageSet) glibc() (v1.Image, error) {
	return images.Debian("glibc-dns-testing", []string{"bash", "bind9-dnsutils", "coreutils", "hostname", "libc-bin",
		"util-linux"}, []images.File{bash, names}, v1.Config{Cmd: []string{"sh"}, Env: []string{environment}})
}

// base makes agnhost, which kitten and nautilus build on.
func (a *imageSet) base() (v1.Image, error) {
	if a.agnhost != nil {
		return a.agnhost, nil
	}
	wants := []string{"bash", "bind9-dnsutils", "curl", "hostname", "iperf", "iproute2", "libc-bin", "netcat-openbsd",
		"socat", "util-linux", "wget"}
	users := "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n"
	groups := "root:x:0:\nnogroup:x:65534:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"
	extra := []images.File{
		bash, names,
		{Path: "bin/nc", Mode: 0o777, Link: "nc.openbsd"}, {Path: "bin/wget", Mode: 0o777, Link: "/usr/bin/wget"},
		{Path: "usr/local/bin/iperf", Mode: 0o777, Link: "/usr/bin/iperf"},
		{Path: "uploads/", Mode: os.ModeDir | 0o755}, {Path: "agnhost-2", Mode: 0o777, Link: "agnhost"},
		{Path: "etc/passwd", Mode: 0o644, Body: []byte(users)}, {Path: "etc/group", Mode: 0o644, Body: []byte(groups)},
		{Path: "etc/os-release", Mode: 0o644, Body: []byte("NAME=\"Alpine Linux\"\nID=alpine\n")}, // a test reads it
	}
	config := v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, Env: []string{environment}}
	files, err := a.registryFiles()
	if err != nil {
		return nil, err
	}
	for from, to := range map[string]string{a.tools.path("agnhost"): "/agnhost",
		a.programPath("agnhost/porter/localhost.crt"): "/localhost.crt",
		a.programPath("agnhost/porter/localhost.key"): "/localhost.key"} {
		f, err := read(from, to, 0o755)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	tools := func() (v1.Image, error) { return images.Debian("agnhost-tools", wants, extra, v1.Config{}) }
	a.agnhost, err = withLayer(tools, files, config)
	return a.agnhost, err
}

// programPath returns the path of a file for upstream's images.
func (a *imageSet) programPath(file string) string {
	return filepath.Join(a.tools.source, "test/images", file)
}

// page makes agnhost with a picture and a JSON file.
func (a *imageSet) page(name string) images.Make {
	return func() (v1.Image, error) {
		var files []images.File
		for _, n := range []string{name + ".jpg", "data.json"} {
			f, err := read(a.programPath(name+"/html/"+n), n, 0o644)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
		return withLayer(a.base, files, v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"test-webserver"},
			Env: []string{environment}})
	}
}

// registryFiles returns what agnhost's own registry serves: the pause image, each blob below the
// first two digits of its digest.
func (a *imageSet) registryFiles() ([]images.File, error) {
	img, err := a.pauseImage()
	if err != nil {
		return nil, err
	}
	manifest, err := img.RawManifest()
	if err != nil {
		return nil, err
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	of, err := img.ConfigName()
	if err != nil {
		return nil, err
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	at := func(kind string, h v1.Hash) string {
		return path.Join("var/registry/pause", kind, h.Algorithm, h.Hex[:2], h.Hex, "data")
	}
	files := []images.File{
		{Path: "var/registry/pause/manifests/testing", Mode: 0o644, Body: []byte(digest.String() + "\n")},
		{Path: at("manifests", digest), Mode: 0o644, Body: manifest},
		{Path: at("blobs", of), Mode: 0o644, Body: config},
	}
	for _, l := range layers {
		h, err := l.Digest()
		if err != nil {
			return nil, err
		}
		r, err := l.Compressed()
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files = append(files, images.File{Path: at("blobs", h), Mode: 0o644, Body: body})
	}
	return files, nil
}

// registryHandler makes the suite's images and returns a registry that serves them from memory,
// without images that no certified test uses.
func (a *imageSet) registryHandler(ctx context.Context) (http.Handler, error) {
	listed, err := output(ctx, "", a.tools.path("e2e.test"), "--list-images")
	if err != nil {
		return nil, err
	}
	step("making the images of the suite")
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: handler}
	go func() { _ = s.Serve(l) }() // ends with ErrServerClosed
	defer s.Close()
	makers := a.makers()
	for tag := range strings.FieldsSeq(listed) {
		repository, version, _ := strings.Cut(strings.TrimPrefix(tag, host+"/"), ":")
		build := makers[path.Base(repository)]
		if len(a.only) > 0 && !slices.Contains(a.only, path.Base(repository)) {
			continue
		}
		if build == nil || !strings.HasPrefix(tag, host+"/") {
			continue
		}
		img, err := build()
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", tag, err)
		}
		if img, err = withTag(img, tag); err != nil {
			return nil, fmt.Errorf("image %s: %w", tag, err)
		}
		to, err := name.ParseReference(l.Addr().String()+"/"+repository+":"+version, name.Insecure)
		if err != nil {
			return nil, err
		}
		if err := remote.Write(to, img, remote.WithContext(ctx)); err != nil {
			return nil, fmt.Errorf("image %s: %w", tag, err)
		}
	}
	return readOnly(handler), nil
}

// withTag adds its name to an image as a label: images of equal content would have one id and each
// other's names.
func withTag(img v1.Image, tag string) (v1.Image, error) {
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config := *file.Config.DeepCopy()
	config.Labels = map[string]string{"name": tag}
	return images.WithConfig(img, config)
}

// readOnly refuses requests that would change the registry.
func readOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "this registry is read-only", http.StatusMethodNotAllowed)
			return
		}
		h.ServeHTTP(w, r)
	})
}
