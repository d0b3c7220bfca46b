package critest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cri"
)

// Target is a runtime under test.
type Target struct {
	Runtime internalapi.RuntimeService
	Images  internalapi.ImageManagerService
	Events  func(ctx context.Context) <-chan *runtimeapi.ContainerEventResponse
	Image   string // on the node, with a POSIX sh, sleep, echo and cat
	Dir     string // for log files
	Host    bool   // use the host's network: the runtime's own is not ready

	// Adjust changes a sandbox's config before it is run (its cgroup parent); may be nil.
	Adjust func(t testing.TB, config *runtimeapi.PodSandboxConfig)
}

// Dialer returns a Target and cleans up at the end of the test.
type Dialer func(t testing.TB) Target

// FromEnv dials the runtime at GANTRY_CRI_ENDPOINT with the image GANTRY_CRI_IMAGE, or skips.
func FromEnv(t testing.TB) Target {
	endpoint, image := os.Getenv("GANTRY_CRI_ENDPOINT"), os.Getenv("GANTRY_CRI_IMAGE")
	if endpoint == "" || image == "" {
		t.Skip("set GANTRY_CRI_ENDPOINT and GANTRY_CRI_IMAGE (a busybox) to run against a real runtime")
	}
	c, err := cri.Dial(t.Context(), cri.Options{Endpoint: endpoint, ConnectTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	st, err := c.Runtime().Status(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	host := true
	for _, cond := range st.Status.Conditions {
		if cond.Type == runtimeapi.NetworkReady && cond.Status {
			host = false
		}
	}
	return Target{Runtime: c.Runtime(), Images: c.Images(), Events: c.Events, Image: image, Dir: t.TempDir(),
		Host: host}
}

// suite is all requirements, in the order in which they are checked.
var suite = []struct {
	name string
	test func(*suiteEnv)
}{
	{"version and status", versionAndStatus},
	{"life", lifecycle},
	{"idempotence", idempotence},
	{"illegal orders", illegalOrders},
	{"exit codes", exitCodes},
	{"logs", logFiles},
	{"log reopened", logReopened},
	{"events", events},
	{"exec", execSync},
	{"exec times out", execTimeout},
	{"stop with grace", stopWithGrace},
	{"stop kills", stopKills},
	{"stop at once", stopAtOnce},
	{"stopping the sandbox", stopSandbox},
	{"removing what runs", removeRunning},
	{"attempts", attempts},
	{"filters", filters},
	{"images", images},
	{"mounts and environment", mountsAndEnvironment},
	{"stats", statistics},
}

// Run checks each requirement in a subtest.
func Run(t *testing.T, dial Dialer) {
	target := dial(t)
	for _, c := range suite {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := &suiteEnv{T: t, Target: target, ctx: t.Context()}
			c.test(b)
		})
	}
}

// suiteEnv is the environment of one subtest, with a Pod of its own.
type suiteEnv struct {
	*testing.T
	Target
	ctx context.Context
}

var serial atomic.Int64

type pod struct {
	id     string
	config *runtimeapi.PodSandboxConfig
}

func (b *suiteEnv) podConfig() *runtimeapi.PodSandboxConfig {
	name := fmt.Sprintf("critest-%d-%d", os.Getpid(), serial.Add(1))
	dir := filepath.Join(b.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	c := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "critest", Uid: name + "-uid"}, Hostname: name,
		LogDirectory: dir,
		Labels: map[string]string{"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "critest",
			"io.kubernetes.pod.uid": name + "-uid"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}}},
	}
	if b.Host {
		c.Hostname = ""
		c.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	}
	if b.Adjust != nil {
		b.Adjust(b, c)
	}
	return c
}

func (b *suiteEnv) run() *pod {
	b.Helper()
	p := &pod{config: b.podConfig()}
	b.runConfig(p)
	return p
}

func (b *suiteEnv) runConfig(p *pod) {
	b.Helper()
	var err error
	if p.id, err = b.Runtime.RunPodSandbox(b.ctx, p.config, ""); err != nil {
		b.Fatalf("RunPodSandbox: %v", err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = b.Runtime.StopPodSandbox(ctx, p.id)
		_ = b.Runtime.RemovePodSandbox(ctx, p.id)
	})
}

func (b *suiteEnv) containerConfig(p *pod, name, script string) *runtimeapi.ContainerConfig {
	labels := map[string]string{"io.kubernetes.container.name": name}
	for k, v := range p.config.Labels {
		labels[k] = v
	}
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: b.Image},
		LogPath: name + ".log",
		Command: []string{"/bin/sh", "-c", script}, Labels: labels,
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: p.config.Linux.SecurityContext.NamespaceOptions}},
	}
}

func (b *suiteEnv) create(p *pod, c *runtimeapi.ContainerConfig) string {
	b.Helper()
	id, err := b.Runtime.CreateContainer(b.ctx, p.id, c, p.config)
	if err != nil {
		b.Fatalf("CreateContainer: %v", err)
	}
	return id
}

// start creates and starts a container that runs a shell script.
func (b *suiteEnv) start(p *pod, name, script string) string {
	b.Helper()
	id := b.create(p, b.containerConfig(p, name, script))
	if err := b.Runtime.StartContainer(b.ctx, id); err != nil {
		b.Fatalf("StartContainer: %v", err)
	}
	return id
}

func (b *suiteEnv) status(id string) *runtimeapi.ContainerStatus {
	b.Helper()
	r, err := b.Runtime.ContainerStatus(b.ctx, id, false)
	if err != nil {
		b.Fatalf("ContainerStatus: %v", err)
	}
	return r.Status
}

const (
	created = runtimeapi.ContainerState_CONTAINER_CREATED
	running = runtimeapi.ContainerState_CONTAINER_RUNNING
	exited  = runtimeapi.ContainerState_CONTAINER_EXITED
)

func (b *suiteEnv) waitExit(id string) *runtimeapi.ContainerStatus {
	b.Helper()
	var st *runtimeapi.ContainerStatus
	b.eventually("container exits", func() bool {
		st = b.status(id)
		return st.State == exited
	})
	return st
}

// eventually polls until ok returns true, for at most ten seconds.
func (b *suiteEnv) eventually(what string, ok func() bool) {
	b.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			b.Fatalf("not within 10 s: %s", what)
		}
	}
}

func (b *suiteEnv) wantCode(what string, err error, code codes.Code) {
	b.Helper()
	switch {
	case err == nil:
		b.Errorf("%s: must be refused", what)
	case code != codes.OK && status.Code(err) != code:
		b.Errorf("%s: refused with code %s, not %s: %v", what, status.Code(err), code, err)
	}
}

func (b *suiteEnv) noError(what string, err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("%s: %v", what, err)
	}
}

func (b *suiteEnv) logLines(p *pod, name string) []string {
	raw, err := os.ReadFile(filepath.Join(p.config.LogDirectory, name+".log"))
	b.noError("read log", err)
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}
