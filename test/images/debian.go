package images

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Nginx is Debian's nginx, serving /usr/share/nginx/html on port 80 with the command and stop
// signal of the official image.
func Nginx() (v1.Image, error) {
	packages := []string{"nginx", "libc6", "libcrypt1", "libpcre2-8-0", "libssl3", "zlib1g"}
	return debian("nginx", packages, []File{
		{Path: "etc/nginx/", Mode: os.ModeDir | 0o755},
		{Path: "etc/nginx/nginx.conf", Mode: 0o644, Body: []byte(nginxConf)},
		{Path: "usr/share/nginx/", Mode: os.ModeDir | 0o755},
		{Path: "usr/share/nginx/html/", Mode: os.ModeDir | 0o755},
		{Path: "usr/share/nginx/html/index.html", Mode: 0o644,
			Body: []byte("<!DOCTYPE html>\n<title>Welcome to nginx!</title>\n<h1>Welcome to nginx!</h1>\n")},
		{Path: "usr/share/nginx/html/50x.html", Mode: 0o644, Body: []byte("<h1>An error occurred.</h1>\n")},
		{Path: "var/lib/nginx/", Mode: os.ModeDir | 0o755},
		{Path: "var/log/nginx/", Mode: os.ModeDir | 0o755},
	}, v1.Config{
		Cmd: []string{"nginx", "-g", "daemon off;"}, Env: []string{path}, StopSignal: "SIGQUIT",
		ExposedPorts: map[string]struct{}{"80/tcp": {}},
	})
}

const nginxConf = `user root;
worker_processes 1;
error_log /dev/stderr notice;
pid /run/nginx.pid;
events { worker_connections 256; }
http {
	types { text/html html; text/plain txt; }
	access_log /dev/stdout;
	server { listen 80; root /usr/share/nginx/html; index index.html; }
}
`

// Redis is Debian's redis server on port 6379.
func Redis() (v1.Image, error) {
	packages := []string{
		"redis-server", "redis-tools", "libc6", "libgcc-s1", "libjemalloc2", "liblzf1", "libssl3", "libsystemd0",
		"libcap2", "libgcrypt20", "libgpg-error0", "liblz4-1",
		"liblzma5", "libstdc++6", "libzstd1", "libatomic1",
	}
	return debian("redis", packages, []File{{Path: "data/", Mode: os.ModeDir | 0o755}}, v1.Config{
		Cmd: []string{"redis-server", "--protected-mode", "no"}, Env: []string{path}, WorkingDir: "/data",
		ExposedPorts: map[string]struct{}{"6379/tcp": {}},
	})
}

// Postgres is Debian's PostgreSQL 15, which runs as nobody with its data in /data/pg and its socket
// in /tmp. The database is made at the first start; there is no password.
func Postgres() (v1.Image, error) {
	packages := []string{
		"postgresql-15", "postgresql-client-15", "libpq5", "libc6", "libgssapi-krb5-2", "libkrb5-3", "libk5crypto3",
		"libkrb5support0", "libcom-err2", "libkeyutils1", "libicu72", "libldap-2.5-0", "libsasl2-2", "libgnutls30",
		"libp11-kit0", "libidn2-0", "libunistring2", "libtasn1-6", "libnettle8", "libhogweed6", "libgmp10", "libffi8",
		"liblz4-1", "libzstd1", "libpam0g", "libaudit1", "libcap-ng0", "libcap2", "libgcrypt20", "libgpg-error0",
		"libssl3", "libsystemd0", "libuuid1", "libxml2", "libxslt1.1", "zlib1g", "liblzma5", "libstdc++6", "libgcc-s1",
		"libselinux1", "libpcre2-8-0", "libtinfo6", "libreadline8", "tzdata",
	}
	start := "#!/bin/sh\nset -e\n[ -s /data/pg/PG_VERSION ] || { rm -rf /data/pg.new; " +
		"initdb -D /data/pg.new -A trust; mv /data/pg.new /data/pg; }\nexec postgres -D /data/pg -k /tmp\n"
	return debian("postgres", packages, []File{{Path: "data/", Mode: os.ModeDir | 0o777},
		{Path: "start", Mode: 0o755, Body: []byte(start)}}, v1.Config{
		Entrypoint: []string{"/start"}, User: "65534", StopSignal: "SIGINT",
		Env: []string{path + ":/usr/lib/postgresql/15/bin", "PGHOST=/tmp", "PGDATABASE=postgres", "PGUSER=nobody"},
	})
}

// Etcd is Debian's etcd as the command.
func Etcd() (v1.Image, error) {
	return debian("etcd", []string{"etcd-server", "libc6"}, nil, v1.Config{Cmd: []string{"etcd"}, Env: []string{path}})
}

// Debian makes an image of packages and all that they depend on, over Busybox, with extra files on
// top. Packages are only unpacked.
func Debian(name string, packages []string, extra []File, config v1.Config) (v1.Image, error) {
	ask := []string{"depends", "--recurse", "--important", "--no-conflicts", "--no-breaks", "--no-replaces",
		"--no-enhances"}
	out, err := exec.Command("apt-cache", append(ask, packages...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("image %s: apt-cache depends %s: %w (apt-get update may help)", name,
			strings.Join(packages, " "), err)
	}
	all := map[string]bool{}
	// packages stand at the beginning of a line, relations are indented, <virtual> ones have no
	// file
	for line := range strings.Lines(string(out)) {
		if p := strings.TrimSpace(line); !strings.HasPrefix(line, " ") && !strings.HasPrefix(p, "<") {
			all[p] = true
		}
	}
	for _, p := range []string{"debconf", "perl-base", "dpkg"} { // only installers want them
		delete(all, p)
	}
	return debian(name, slices.Sorted(maps.Keys(all)), extra, config)
}

// debian makes an image of packages and of Busybox, which gives it a shell. The packages are only
// unpacked, nothing is installed here.
func debian(name string, packages []string, extra []File, config v1.Config) (v1.Image, error) {
	shell, err := busybox()
	if err != nil {
		return nil, err
	}
	key := fmt.Appendf(nil, "1 %v %v %v", packages, extra, config)
	return cached(name, append(key, shell...), func() (v1.Image, error) {
		dir, err := os.MkdirTemp("", "gantry-"+name)
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		root := filepath.Join(dir, "root")
		if err := unpackPackages(dir, root, packages); err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		files, err := tree(root)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		img, err := newBusybox(shell)
		if err != nil {
			return nil, err
		}
		if img, err = WithLayer(img, append(files, extra...)); err != nil {
			return nil, err
		}
		return WithConfig(img, config)
	})
}

func unpackPackages(dir, root string, packages []string) error {
	get := exec.Command("apt-get", append([]string{"download", "-q"}, packages...)...)
	get.Dir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // apt drops its privileges
		return err
	}
	if out, err := get.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get download %s: %w: %s (apt-get update may help)", strings.Join(packages, " "), err,
			bytes.TrimSpace(out))
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if out, err := exec.Command("dpkg-deb", "-x", deb, root).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg-deb -x %s: %w: %s", filepath.Base(deb), err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// strippedPaths parts of packages inside a container.
var strippedPaths = []string{"usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/lintian/",
	"usr/share/bash-completion/", "usr/share/bug/", "lib/systemd/", "etc/"}

// tree reads a directory as image entries.
func tree(root string) ([]File, error) {
	var out []File
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == root {
			return err
		}
		name, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		for _, u := range strippedPaths {
			if strings.HasPrefix(name+"/", u) {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := File{Path: name, Mode: info.Mode()}
		switch {
		case d.IsDir():
			f.Path += "/"
		case info.Mode()&os.ModeSymlink != 0:
			f.Link, err = os.Readlink(at)
		default:
			f.Body, err = os.ReadFile(at)
		}
		out = append(out, f)
		return err
	})
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out, err
}
