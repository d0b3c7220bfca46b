package images

import (
	"fmt"
	"io"
	"log" //nolint:depguard // the registry library takes a *log.Logger
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

var anyTag = name.MustParseReference("gantry.invalid/cached:1")

// Make makes an image; the functions of this package have this form.
type Make func() (v1.Image, error)

// Standard are the names that examples, fixtures and recordings use, and what stands behind them,
// each with content of its own.
func Standard() map[string]Make {
	out := map[string]Make{
		"docker.io/library/busybox:1.28":                   Busybox,
		"docker.io/library/busybox:1.37":                   Busybox,
		"docker.io/library/busybox:latest":                 Busybox,
		"docker.io/library/alpine:latest":                  Busybox,
		"docker.io/library/nginx:1.14.2":                   Nginx,
		"docker.io/library/nginx:latest":                   Nginx,
		"docker.io/library/redis:latest":                   Redis,
		"registry.k8s.io/etcd:3.5.13-0":                    Etcd,
		"registry.k8s.io/e2e-test-images/agnhost:2.63":     Agnhost,
		"registry.k8s.io/e2e-test-images/busybox:1.36.1-1": Busybox,
		"registry.example/busybox:1.37":                    Busybox,
		"registry.example/agnhost:2.63":                    Agnhost,
		"registry.example/nginx:1.27":                      Nginx,
		"registry.example/nonroot:1.5":                     NonRoot,
		"registry.example/fresh:1":                         Busybox,
		"registry.fixture.test:5000/busybox:1.35":          Busybox,
		"registry.k8s.io/e2e-test-images/nginx:1.14-4":     Nginx,
		"registry.k8s.io/e2e-test-images/httpd:2.4.38-4":   Httpd,
	}
	for n, make := range out {
		out[n] = WithName(n, make)
	}
	return out
}

// WithName makes an image that is another than all others made of the same: a label has its name. A
// node that pulls an image with credentials vouches for its content, so that under one content the
// check of who may use it would hold for the other names too, those that were imported among them.
func WithName(name string, make Make) Make {
	return func() (v1.Image, error) {
		img, err := make()
		if err != nil {
			return nil, err
		}
		file, err := img.ConfigFile()
		if err != nil {
			return nil, err
		}
		config := *file.Config.DeepCopy()
		if config.Labels == nil {
			config.Labels = map[string]string{}
		}
		config.Labels["gantry.test/name"] = name
		return WithConfig(img, config)
	}
}

// Archive writes a docker archive with the named images, for containerd's import. Layers that
// images share are written once.
func Archive(path string, tags map[string]Make) error {
	all := map[name.Reference]v1.Image{}
	for tag, make := range tags {
		ref, err := name.ParseReference(tag)
		if err != nil {
			return fmt.Errorf("image name %q: %w", tag, err)
		}
		img, err := make()
		if err != nil {
			return fmt.Errorf("image %s: %w", tag, err)
		}
		all[ref] = img
	}
	return tarball.MultiRefWriteToFile(path, all)
}

// Select picks names out of a table such as Standard.
func Select(tags map[string]Make, names ...string) map[string]Make {
	out := map[string]Make{}
	for _, n := range names {
		out[n] = tags[n]
	}
	return out
}

// Registry is a registry on the loopback.
type Registry struct {
	// Addr is host:port; containerd pulls from it over plain http without further settings.
	Addr   string
	server *http.Server
	served sync.WaitGroup
}

// Serve starts an empty registry; wrap, when not nil, sees every request first (to refuse, delay or
// count).
func Serve(wrap func(http.Handler) http.Handler) (*Registry, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if wrap != nil {
		h = wrap(h)
	}
	r := &Registry{Addr: l.Addr().String(), server: &http.Server{Handler: h}}
	r.served.Add(1)
	go func() {
		defer r.served.Done()
		_ = r.server.Serve(l) // ends with ErrServerClosed
	}()
	return r, nil
}

// Push stores an image as repository:tag, without a host name.
func (r *Registry) Push(repositoryTag string, make Make) error {
	ref, err := name.ParseReference(r.Addr+"/"+repositoryTag, name.Insecure)
	if err != nil {
		return fmt.Errorf("image name %q: %w", repositoryTag, err)
	}
	img, err := make()
	if err != nil {
		return err
	}
	return remote.Write(ref, img)
}

// Mirror makes containerd ask this registry for images of host, such as docker.io, and nobody else:
// it writes host's hosts.toml below dir (containerd.Config.RegistryDir). containerd reads it at
// every pull.
func (r *Registry) Mirror(dir, host string) error {
	at := filepath.Join(dir, host)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return fmt.Errorf("registry mirror: %w", err)
	}
	text := fmt.Sprintf("server = \"http://%s\"\n[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n",
		r.Addr, r.Addr)
	return os.WriteFile(filepath.Join(at, "hosts.toml"), []byte(text), 0o644)
}

// Close stops it.
func (r *Registry) Close() error {
	err := r.server.Close()
	r.served.Wait()
	return err
}
