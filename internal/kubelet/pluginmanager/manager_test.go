package pluginmanager_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/gantry-project/gantry/internal/kubelet/pluginmanager"
	"github.com/gantry-project/gantry/test/expect"
)

// plugin is a registration server on a socket.
type plugin struct {
	registerapi.UnimplementedRegistrationServer
	info     *registerapi.PluginInfo
	hang     bool
	notified chan *registerapi.RegistrationStatus
	server   *grpc.Server
}

func (p *plugin) GetInfo(ctx context.Context, _ *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	if p.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return p.info, nil
}

func (p *plugin) NotifyRegistrationStatus(_ context.Context,
	s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	p.notified <- s
	return &registerapi.RegistrationStatusResponse{}, nil
}

// serve makes the socket and answers on it; it is removed when the plugin is stopped.
func serve(t *testing.T, path string, p *plugin) *plugin {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p.notified, p.server = make(chan *registerapi.RegistrationStatus, 10), grpc.NewServer()
	registerapi.RegisterRegistrationServer(p.server, p)
	go func() { _ = p.server.Serve(l) }()
	t.Cleanup(p.server.Stop)
	return p
}

func csiPlugin(name string) *plugin {
	return &plugin{info: &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: name, Endpoint: "/x/" + name,
		SupportedVersions: []string{"1.0.0"}}}
}

// handler writes down its calls.
type handler struct {
	mu     sync.Mutex
	calls  chan string
	refuse map[string]error // by what would be written down
}

func newHandler() *handler {
	return &handler{calls: make(chan string, 100), refuse: map[string]error{}}
}

func (h *handler) call(text string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls <- text
	return h.refuse[text]
}

func (h *handler) allow(text string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse[text] = err
}

func (h *handler) ValidatePlugin(name, endpoint string, versions []string) error {
	return h.call(fmt.Sprintf("validate %s %s %v", name, endpoint, versions))
}

func (h *handler) RegisterPlugin(name, endpoint string, versions []string) error {
	return h.call(fmt.Sprintf("register %s %s %v", name, endpoint, versions))
}

func (h *handler) DeRegisterPlugin(name, endpoint string) {
	_ = h.call("deregister " + name + " " + endpoint)
}

func (h *handler) want(t *testing.T, calls ...string) {
	t.Helper()
	for _, want := range calls {
		select {
		case got := <-h.calls:
			if got != want {
				t.Fatalf("the handler got %q, want %q", got, want)
			}
		case <-time.After(expect.Patience(time.Minute)):
			t.Fatalf("the handler got nothing, want %q", want)
		}
	}
}

func (p *plugin) wantNotified(t *testing.T, registered bool, text string) {
	t.Helper()
	select {
	case got := <-p.notified:
		if got.PluginRegistered != registered || got.Error != text {
			t.Fatalf("the plugin was notified of %v %q, want %v %q", got.PluginRegistered, got.Error, registered, text)
		}
	case <-time.After(expect.Patience(time.Minute)):
		t.Fatalf("the plugin got nothing, want %v %q", registered, text)
	}
}

// start runs a Manager of a directory whose path is short enough for sockets.
func start(t *testing.T, dir string, h *handler) *pluginmanager.Manager {
	t.Helper()
	m := pluginmanager.New(dir, klog.Background())
	m.AddHandler(registerapi.CSIPlugin, h)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return m
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "reg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// waitFor waits until the list of plugins is as wanted.
func waitFor(t *testing.T, m *pluginmanager.Manager, want func([]pluginmanager.Plugin) bool) {
	t.Helper()
	deadline := time.After(expect.Patience(time.Minute))
	for {
		got, changed := m.Plugins()
		if want(got) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("got plugins %+v", got)
		}
	}
}

// row: CSI-03
func TestPluginsAreRegisteredAndDropped(t *testing.T) {
	dir, h := shortDir(t), newHandler()
	early := serve(t, filepath.Join(dir, "early.sock"), csiPlugin("early"))
	m := start(t, dir, h)
	h.want(t, "validate early /x/early [1.0.0]", "register early /x/early [1.0.0]")
	early.wantNotified(t, true, "")

	if err := os.Mkdir(filepath.Join(dir, "late"), 0o750); err != nil {
		t.Fatal(err)
	}
	late := serve(t, filepath.Join(dir, "late", "l.sock"), csiPlugin("late"))
	h.want(t, "validate late /x/late [1.0.0]", "register late /x/late [1.0.0]")
	late.wantNotified(t, true, "")

	early.server.Stop() // the listener removes its socket
	h.want(t, "deregister early /x/early")
	waitFor(t, m, func(p []pluginmanager.Plugin) bool {
		return len(p) == 1 && p[0].Name == "late" && p[0].Registered
	})

	again := csiPlugin("early")
	again.info.Endpoint = "" // where the registration is served
	path := filepath.Join(dir, "early.sock")
	serve(t, path, again)
	h.want(t, "validate early "+path+" [1.0.0]", "register early "+path+" [1.0.0]")
	again.wantNotified(t, true, "")
}

// row: CSI-03
func TestASocketThatIsReplacedIsRegisteredAnew(t *testing.T) {
	dir, h := shortDir(t), newHandler()
	start(t, dir, h)
	path := filepath.Join(dir, "a.sock")
	serve(t, path, csiPlugin("a"))
	h.want(t, "validate a /x/a [1.0.0]", "register a /x/a [1.0.0]")
	// The new instance takes the place in one step: there is no moment without a socket.
	next := csiPlugin("a")
	next.info.Endpoint = "/x/new"
	serve(t, filepath.Join(dir, ".a.new"), next)
	if err := os.Rename(filepath.Join(dir, ".a.new"), path); err != nil {
		t.Fatal(err)
	}
	h.want(t, "deregister a /x/a", "validate a /x/new [1.0.0]", "register a /x/new [1.0.0]")
	next.wantNotified(t, true, "")
}

func TestRefusedPluginsAreNotifiedAndTriedAgain(t *testing.T) {
	dir, h := shortDir(t), newHandler()
	h.allow("validate bad /x/bad [1.0.0]", errors.New("no such version"))
	h.allow("register shy /x/shy [1.0.0]", errors.New("not yet"))
	m := start(t, dir, h)
	bad := serve(t, filepath.Join(dir, "bad.sock"), csiPlugin("bad"))
	bad.wantNotified(t, false, "RegisterPlugin error -- plugin validation failed with err: no such version")
	stranger := csiPlugin("s")
	stranger.info.Type = "Unheard"
	path := filepath.Join(dir, "s.sock")
	serve(t, path, stranger)
	stranger.wantNotified(t, false,
		"RegisterPlugin error -- no handler registered for plugin type: Unheard at socket "+path)
	shy := serve(t, filepath.Join(dir, "shy.sock"), csiPlugin("shy"))
	shy.wantNotified(t, false, "RegisterPlugin error -- plugin registration failed with err: not yet")
	waitFor(t, m, func(p []pluginmanager.Plugin) bool {
		return len(p) == 3 && !slices.ContainsFunc(p,
			func(p pluginmanager.Plugin) bool { return p.Registered || p.Err == "" })
	})
	h.allow("register shy /x/shy [1.0.0]", nil)
	shy.wantNotified(t, true, "")
	waitFor(t, m, func(p []pluginmanager.Plugin) bool {
		return slices.ContainsFunc(p, func(p pluginmanager.Plugin) bool { return p.Name == "shy" && p.Registered })
	})
}

// row: CSI-12
func TestAPluginThatHangsKeepsNoOther(t *testing.T) {
	dir, h := shortDir(t), newHandler()
	hanging := csiPlugin("hanging")
	hanging.hang = true
	serve(t, filepath.Join(dir, "a.sock"), hanging)
	start(t, dir, h)
	serve(t, filepath.Join(dir, "b.sock"), csiPlugin("b"))
	h.want(t, "validate b /x/b [1.0.0]", "register b /x/b [1.0.0]")
}

func TestSocketsOfNoPluginAreLeftAlone(t *testing.T) {
	dir, h := shortDir(t), newHandler()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	serve(t, filepath.Join(dir, ".hidden.sock"), csiPlugin("hidden"))
	m := start(t, dir, h)
	serve(t, filepath.Join(dir, ".late.sock"), csiPlugin("hidden2"))
	serve(t, filepath.Join(dir, "seen.sock"), csiPlugin("seen"))
	h.want(t, "validate seen /x/seen [1.0.0]", "register seen /x/seen [1.0.0]")
	waitFor(t, m, func(p []pluginmanager.Plugin) bool { return len(p) == 1 && p[0].Registered })
}
