package why

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // the registry library takes a *log.Logger
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/ports"
)

// registries are the registries of a fixture, by the host that images name.
type registries struct {
	dir   string // containerd's, with one directory per host
	hosts map[string]*host
}

// host is one registry. Pushes go to a port of their own, without credentials and without a rate
// limit.
type host struct {
	addr  string // where containerd asks
	front *http.Server
	back  *images.Registry

	mu         sync.Mutex
	user, pass string
	rate       int64 // bytes per second of a connection; 0 is no bound
	handler    http.Handler
}

// at gives the registry of a host, and starts it.
func (r *registries) at(name string) (*host, error) {
	if h := r.hosts[name]; h != nil {
		return h, nil
	}
	h := &host{handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	var err error
	if h.back, err = images.Serve(func(http.Handler) http.Handler { return h.handler }); err != nil {
		return nil, err
	}
	r.hosts[name] = h
	port, err := ports.Free() // it is listened on again after the registry was away
	if err != nil {
		return nil, err
	}
	if err := h.open(fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
		return nil, err
	}
	at := filepath.Join(r.dir, name)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("server = \"http://%s\"\n[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n",
		h.addr, h.addr)
	return h, os.WriteFile(filepath.Join(at, "hosts.toml"), []byte(text), 0o644)
}

func (h *host) open(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	h.addr, h.front = l.Addr().String(), &http.Server{Handler: http.HandlerFunc(h.serve)}
	front := h.front
	go func() { _ = front.Serve(l) }() // ends with ErrServerClosed
	return nil
}

func (h *host) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	user, pass, rate := h.user, h.pass, h.rate
	h.mu.Unlock()
	if u, p, ok := r.BasicAuth(); user != "" && (!ok || u != user || p != pass) {
		w.Header().Set("WWW-Authenticate", `Basic realm="fixture"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`,
			http.StatusUnauthorized)
		return
	}
	if rate > 0 && r.Method == http.MethodGet {
		w = &slow{ResponseWriter: w, rate: rate}
	}
	h.handler.ServeHTTP(w, r)
}

// slow writes so many bytes a second.
type slow struct {
	http.ResponseWriter
	rate int64
}

func (s *slow) Write(b []byte) (int, error) {
	const slice = 50 * time.Millisecond
	step, done := max(int(s.rate*int64(slice)/int64(time.Second)), 1), 0
	for done < len(b) {
		n, err := s.ResponseWriter.Write(b[done:min(done+step, len(b))])
		done += n
		if err != nil {
			return done, err
		}
		if f, ok := s.ResponseWriter.(http.Flusher); ok {
			f.Flush()
		}
		time.Sleep(time.Duration(int64(n) * int64(time.Second) / s.rate)) // the rate itself
	}
	return done, nil
}

// push makes an image as a fixture words it and stores it.
func (r *registries) push(i Image) error {
	ref, err := name.ParseReference(i.Ref)
	if err != nil {
		return err
	}
	h, err := r.at(ref.Context().RegistryStr())
	if err != nil {
		return err
	}
	img, err := build(i)
	if err != nil {
		return fmt.Errorf("image %s: %w", i.Ref, err)
	}
	to, err := name.ParseReference(fmt.Sprintf("%s/%s:%s", h.back.Addr, ref.Context().RepositoryStr(),
		ref.Identifier()), name.Insecure)
	if err != nil {
		return err
	}
	return remote.Write(to, img)
}

func build(i Image) (v1.Image, error) {
	make := images.Busybox
	switch i.From {
	case "busybox":
	case "busybox-httpd":
		make = images.Httpd
	default:
		return nil, fmt.Errorf("from %q: want busybox or busybox-httpd", i.From)
	}
	img, err := images.WithName(i.Ref, make)()
	if err != nil {
		return nil, err
	}
	var more []images.File
	if i.Passwd != "" {
		more = append(more,
			images.File{Path: "etc/passwd", Mode: 0o644, Body: []byte(strings.TrimSpace(i.Passwd) + "\n")})
	}
	if pad, err := bytesOf(i.Pad); err != nil {
		return nil, fmt.Errorf("pad: %w", err)
	} else if pad > 0 {
		body := randomBytes(pad)
		more = append(more, images.File{Path: "pad", Mode: 0o644, Body: body})
	}
	if len(more) > 0 {
		if img, err = images.WithLayer(img, more); err != nil {
			return nil, err
		}
	}
	if i.User == "" && i.From != "busybox-httpd" && len(more) == 0 {
		return img, nil
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	c := file.Config
	if i.From == "busybox-httpd" {
		c.Entrypoint = []string{"httpd", "-f", "-p", "8080"}
	} else {
		c.Cmd = []string{"sh"}
	}
	if len(c.Env) == 0 {
		c.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	c.User = i.User
	return images.WithConfig(img, c)
}

func randomBytes(n int64) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// bytesOf reads a number, a quantity such as 64Mi, or a rate such as 2Mi/s.
func bytesOf(v any) (int64, error) {
	switch x := v.(type) {
	case nil:
		return 0, nil
	case float64:
		return int64(x), nil
	case int64:
		return x, nil
	}
	q, err := resource.ParseQuantity(strings.TrimSuffix(strings.TrimSuffix(fmt.Sprint(v), "/s"), "B"))
	return q.Value(), err
}

// step performs a step of the fixture.
func (r *registries) step(s Step) error {
	h, err := r.at(s.Host)
	if err != nil {
		return err
	}
	rate, err := bytesOf(s.Rate)
	if err != nil {
		return fmt.Errorf("rate: %w", err)
	}
	h.mu.Lock()
	if s.Auth != nil {
		h.user, h.pass = s.Auth.User, s.Auth.Password
	}
	if s.Rate != nil {
		h.rate = rate
	}
	h.mu.Unlock()
	switch s.State {
	case "stopped":
		return h.front.Close()
	case "running":
		if err := h.open(h.addr); err != nil && !strings.Contains(err.Error(), "in use") {
			return err
		}
	}
	if s.Push != nil {
		return r.push(*s.Push)
	}
	return nil
}

func (r *registries) close() error {
	var errs []error
	for _, h := range r.hosts {
		errs = append(errs, h.front.Close(), h.back.Close())
	}
	return errors.Join(errs...)
}
