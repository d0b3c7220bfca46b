package containerd_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/containerd"
	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/images"
)

// The test binary is containerd when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "containerd" {
		os.Exit(containerd.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

const busybox = "docker.io/library/busybox:1.28"

// testNode is a runtime with Gantry's network, as `gantry up` makes it.
type testNode struct {
	t   *testing.T
	cfg containerd.Config
	net network.Config

	groups *cgroup.Tree

	mu     sync.Mutex
	events []containerd.Event
	wakeup chan struct{}
}

func newNode(t *testing.T) *testNode {
	t.Helper()
	bin := binaries.Dir(t)
	dir := t.TempDir()
	n := &testNode{t: t, wakeup: make(chan struct{}, 100)}
	n.cfg = containerd.Config{DataDir: dir, BinDir: bin, OnEvent: func(e containerd.Event) {
		n.mu.Lock()
		n.events = append(n.events, e)
		n.mu.Unlock()
		t.Logf("%s pid=%d took=%s %v", e.Kind, e.PID, e.Took.Round(time.Millisecond), e.Err)
		n.wakeup <- struct{}{}
	}}
	second := instance.ID(dir)
	third := (int(second[0])*7+int(second[1]))%200 + 1
	n.net = network.Config{DataDir: dir, BinDir: filepath.Join(bin, "cni"), Bridge: "gt" + second,
		PodCIDR: fmt.Sprintf("10.250.%d.0/24", third)}
	groups, err := cgroup.Open(cgroup.Options{Root: "/gantry-test-" + second})
	if err != nil {
		t.Fatal(err)
	}
	n.groups = groups
	if _, err := network.Ensure(t.Context(), n.net); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := containerd.Clean(context.Background(), n.cfg); err != nil {
			t.Error(err)
		}
		if err := network.Clean(context.Background(), n.net); err != nil {
			t.Error(err)
		}
		if groups.Exists(groups.Root()) {
			if err := groups.Remove(groups.Root()); err != nil {
				t.Error(err)
			}
		}
		n.assertNothingLeft()
	})
	return n
}

// assertNothingLeft looks for processes, mounts and directories of the instance.
func (n *testNode) assertNothingLeft() {
	state := instance.StateDir(n.cfg.DataDir)
	if _, err := os.Stat(state); err == nil {
		n.t.Errorf("%s is left", state)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, state) || strings.Contains(line, n.cfg.DataDir) {
			n.t.Errorf("mount is left: %s", line)
		}
	}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, c := range commands {
		if raw, err := os.ReadFile(c); err == nil && strings.Contains(string(raw), state) {
			n.t.Errorf("process is left: %s %q", c, raw)
		}
	}
}

func (n *testNode) start() *containerd.Child {
	n.t.Helper()
	c, err := containerd.Start(n.t.Context(), n.cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(c.Close) // so that nothing is restarted while the test cleans up
	return c
}

// await returns the next event of a kind, dropping others.
func (n *testNode) await(kind containerd.EventKind) containerd.Event {
	n.t.Helper()
	deadline := time.After(time.Minute)
	for {
		n.mu.Lock()
		for i, e := range n.events {
			if e.Kind == kind {
				n.events = n.events[i+1:]
				n.mu.Unlock()
				return e
			}
		}
		n.mu.Unlock()
		select {
		case <-n.wakeup:
		case <-deadline:
			n.t.Fatalf("containerd was not %s within 20 s", kind)
		}
	}
}

// runtimeClient speaks CRI.
type runtimeClient struct {
	runtimeapi.RuntimeServiceClient
	img runtimeapi.ImageServiceClient
	t   *testing.T
	dir string
	// cgroup is the parent of all Pods' cgroups, this test's own.
	cgroup string
	groups *cgroup.Tree
}

func (n *testNode) client() runtimeClient {
	n.t.Helper()
	conn, err := grpc.NewClient(n.cfg.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	return runtimeClient{runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn), n.t,
		n.cfg.DataDir, n.groups.Root(), n.groups}
}

func (c runtimeClient) sandbox(name string, ports ...*runtimeapi.PortMapping) (string, *runtimeapi.PodSandboxConfig) {
	c.t.Helper()
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name}, Hostname: name,
		LogDirectory: filepath.Join(c.dir, "logs", name), PortMappings: ports,
		Linux: &runtimeapi.LinuxPodSandboxConfig{CgroupParent: c.cgroup + "/" + name,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
			}},
	}
	if err := os.MkdirAll(config.LogDirectory, 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := c.groups.Ensure(config.Linux.CgroupParent, cgroup.Values{}); err != nil {
		c.t.Fatal(err)
	}
	r, err := c.RunPodSandbox(c.t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		c.t.Fatal(err)
	}
	return r.PodSandboxId, config
}

func (c runtimeClient) container(sandbox string, config *runtimeapi.PodSandboxConfig, command ...string) string {
	c.t.Helper()
	return c.containerOf(busybox, sandbox, config, command...)
}

func (c runtimeClient) containerOf(image, sandbox string, config *runtimeapi.PodSandboxConfig,
	command ...string) string {
	c.t.Helper()
	cc := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Image: &runtimeapi.ImageSpec{Image: image},
		Command: command, LogPath: "main.log",
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
		}},
	}
	made, err := c.CreateContainer(c.t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, Config: cc,
		SandboxConfig: config})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.StartContainer(c.t.Context(),
		&runtimeapi.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		c.t.Fatal(err)
	}
	return made.ContainerId
}

func (c runtimeClient) remove(sandbox string) {
	c.t.Helper()
	if _, err := c.StopPodSandbox(c.t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.RemovePodSandbox(c.t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox}); err !=
		nil {
		c.t.Fatal(err)
	}
}

func (c runtimeClient) ip(sandbox string) string {
	c.t.Helper()
	r, err := c.PodSandboxStatus(c.t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil {
		c.t.Fatal(err)
	}
	return r.Status.Network.Ip
}

func (c runtimeClient) pid(container string) string {
	c.t.Helper()
	r, err := c.ContainerStatus(c.t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: container,
		Verbose: true})
	if err != nil {
		c.t.Fatal(err)
	}
	_, after, _ := strings.Cut(r.Info["info"], `"pid":`)
	pid, _, _ := strings.Cut(after, ",")
	return pid
}

func (n *testNode) importBusybox(c *containerd.Child) {
	n.t.Helper()
	file := filepath.Join(n.t.TempDir(), "busybox.tar")
	if err := images.Archive(file, images.Select(images.Standard(), busybox)); err != nil {
		n.t.Fatal(err)
	}
	names, err := c.ImportImage(n.t.Context(), file)
	if err != nil || len(names) != 1 || names[0] != busybox {
		n.t.Fatalf("import: got %v, %v, want no error and one of them and [0] %v", names, err, busybox)
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		r, err := (&http.Client{Timeout: 2 * time.Second}).Get(url)
		if err == nil {
			defer r.Body.Close()
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond) // the server inside the container is starting
	}
}

// The whole life of a runtime: first start, Pods, death by kill -9, adoption by a second Gantry,
// stop, clean.
//
// row: CRI-19
func TestRuntimeOutlivesItsOwner(t *testing.T) {
	n := newNode(t)
	first := n.start()
	if e := n.await(containerd.Started); e.PID != first.PID() {
		t.Errorf("started %d, PID is %d", e.PID, first.PID())
	}
	n.importBusybox(first)
	cri := n.client()

	startedAt := time.Now()
	web, config := cri.sandbox("web", &runtimeapi.PortMapping{HostPort: 0, ContainerPort: 80})
	main := cri.container(web, config, "sh", "-c", "echo hello > /index.html; exec httpd -f -p 80 -h /")
	t.Logf("sandbox and container: %s", time.Since(startedAt).Round(time.Millisecond))
	if got := fetch(t, "http://"+cri.ip(web)+"/"); got != "hello\n" {
		t.Errorf("the Pod answers %q", got)
	}
	pid, ip := cri.pid(main), cri.ip(web)

	// containerd is killed: it comes back by itself, and the container never noticed.
	if err := syscall.Kill(first.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.await(containerd.Died)
	if e := n.await(containerd.Restarted); e.PID != first.PID() {
		t.Errorf("restarted as %d, PID is %d", e.PID, first.PID())
	}
	if got := cri.pid(main); got != pid {
		t.Errorf("the container's process was %s and is %s", pid, got)
	}

	// Gantry ends and starts again: the same containerd is adopted.
	was := first.PID()
	first.Close()
	second := n.start()
	n.await(containerd.Adopted)
	if second.PID() != was || cri.pid(main) != pid || cri.ip(web) != ip {
		t.Errorf("adopted %d (was %d), container %s (was %s), address %s (was %s)", second.PID(), was, cri.pid(main),
			pid, cri.ip(web), ip)
	}

	// Gantry ends and containerd is killed meanwhile: the next start brings it back, the container
	// runs on.
	second.Close()
	if err := syscall.Kill(was, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	third := n.start()
	n.await(containerd.Started)
	if cri.pid(main) != pid {
		t.Error("the container was restarted")
	}
	cri.remove(web)
	if err := third.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if state := stateOf(third.PID()); state != "" && state != "Z" {
		t.Errorf("got containerd in state %s after Stop, want it ended", state)
	}
}

// stateOf is the state of a process (proc_pid_stat(5)): Z for one that ended and that nobody has
// waited for yet, empty for one that is not there.
func stateOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

// A configuration that changed takes effect: the running containerd is replaced, containers run on.
func TestChangedConfigurationReplacesContainerd(t *testing.T) {
	n := newNode(t)
	first := n.start()
	n.importBusybox(first)
	cri := n.client()
	pod, config := cri.sandbox("sleeper")
	main := cri.container(pod, config, "sleep", "1000")
	pid := cri.pid(main)
	first.Close()
	n.cfg.LogLevel = "warn"
	second := n.start()
	if second.PID() == first.PID() {
		t.Error("the containerd with the old configuration still runs")
	}
	if got := n.client().pid(main); got != pid {
		t.Errorf("the container's process was %s and is %s", pid, got)
	}
	second.Close()

	// So is one whose files somebody swept away: it is found by its command line.
	for _, name := range []string{"containerd.sock", "containerd.pid"} {
		if err := os.Remove(filepath.Join(instance.StateDir(n.cfg.DataDir), name)); err != nil {
			t.Fatal(err)
		}
	}
	third := n.start()
	if third.PID() == second.PID() {
		t.Error("a containerd without socket was adopted")
	}
	if got := n.client().pid(main); got != pid {
		t.Errorf("the container's process was %s and is %s", pid, got)
	}
	third.Close() // Clean ends everything that is left running here
}

func TestImagesComeFromALoopbackMirror(t *testing.T) {
	n := newNode(t)
	n.cfg.RegistryDir = filepath.Join(t.TempDir(), "certs.d")
	registry, err := images.Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	if err := registry.Push("library/busybox:1.28", images.Busybox); err != nil {
		t.Fatal(err)
	}
	if err := registry.Mirror(n.cfg.RegistryDir, "docker.io"); err != nil {
		t.Fatal(err)
	}
	child := n.start()
	defer child.Close()
	cri := n.client()
	if _, err := cri.img.PullImage(t.Context(),
		&runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: busybox}}); err != nil {
		t.Fatal(err)
	}
	pod, config := cri.sandbox("pulled")
	cri.container(pod, config, "true")
	cri.remove(pod)
}

// A network that the administrator brought: containerd reads its conflist, gives the plugin the
// configuration on stdin and takes the Pod's address from what it prints.
//
// row: NET-02
func TestAnyCNIPluginWorks(t *testing.T) {
	n := newNode(t)
	dir := t.TempDir()
	n.cfg.CNIConfDir, n.cfg.CNIBinDir = filepath.Join(dir, "net.d"), filepath.Join(dir, "bin")
	plugin := `#!/bin/sh
cat > ` + dir + `/stdin.$CNI_COMMAND
echo '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"'$CNI_NETNS'"}],
 "ips":[{"address":"203.0.113.7/24","interface":0}]}'
`
	for file, text := range map[string]string{
		"bin/theirs":           plugin,
		"net.d/00-theirs.conf": `{"cniVersion":"1.0.0","name":"theirs","type":"theirs","marker":"of this test"}`,
	} {
		at := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.start().Close()
	cri := n.client()
	pod, _ := cri.sandbox("theirs")
	if got := cri.ip(pod); got != "203.0.113.7" {
		t.Errorf("the Pod's address: got %s, want %s", got, "203.0.113.7")
	}
	cri.remove(pod)
	for _, verb := range []string{"ADD", "DEL"} {
		if raw, err := os.ReadFile(filepath.Join(dir, "stdin."+verb)); err != nil || !strings.Contains(string(raw),
			`"marker":"of this test"`) {
			t.Errorf("%s: stdin was %s (%v)", verb, raw, err)
		}
	}
}

// row: CRI-28
func TestStopSignalOfTheImageIsSent(t *testing.T) {
	n := newNode(t)
	nginx := "docker.io/library/nginx:1.14.2"
	dir := filepath.Join(n.cfg.DataDir, "images")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := images.Nginx(); err != nil {
		t.Skipf("Debian's packages cannot be fetched: %v", err)
	}
	if err := images.Archive(filepath.Join(dir, "nginx.tar"), images.Select(images.Standard(), nginx)); err != nil {
		t.Fatal(err)
	}
	n.start().Close()
	cri := n.client()
	pod, config := cri.sandbox("web")
	web := cri.containerOf(nginx, pod, config)
	if got := fetch(t, "http://"+cri.ip(pod)+"/"); !strings.Contains(got, "Welcome to nginx!") {
		t.Errorf("nginx answers %q", got)
	}
	if _, err := cri.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: web, Timeout: 10}); err !=
		nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(config.LogDirectory, "main.log"))
	if err != nil || !strings.Contains(string(log), "signal 3 (SIGQUIT) received") {
		t.Errorf("nginx's log (%v):\n%s", err, log)
	}
	cri.remove(pod)
}

func TestArchivesInTheImagesDirectoryAreThere(t *testing.T) {
	n := newNode(t)
	dir := filepath.Join(n.cfg.DataDir, "images")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := images.Archive(filepath.Join(dir, "busybox.tar"), images.Select(images.Standard(), busybox)); err != nil {
		t.Fatal(err)
	}
	n.start().Close()
	cri := n.client()
	status := func() *runtimeapi.Image {
		r, err := cri.img.ImageStatus(t.Context(),
			&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: "busybox:1.28"}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Image
	}
	if status() == nil {
		t.Fatal("the archive's image is not there")
	}
	// An archive is imported once: an image that was removed since stays away until the archive
	// changes.
	if _, err := cri.img.RemoveImage(t.Context(),
		&runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: busybox}}); err != nil {
		t.Fatal(err)
	}
	n.start().Close()
	if status() != nil {
		t.Error("the archive was imported again")
	}
	if err := os.WriteFile(filepath.Join(dir, "broken.tar"), []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	imported := make(chan containerd.ImportedArchive, 10)
	n.cfg.OnImport = func(i containerd.ImportedArchive) { imported <- i }
	child := n.start() // a broken archive keeps nothing from starting
	if i := <-imported; i.File != filepath.Join(dir, "broken.tar") || i.Err == nil || !strings.Contains(i.Err.Error(),
		"mend the archive or take it out of "+dir) {
		t.Errorf("a broken archive: %+v", i)
	}

	// What is put there while the node runs is imported once it is complete.
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- child.FollowImages(ctx, func(err error) { t.Error(err) }) }()
	whole, err := os.ReadFile(filepath.Join(dir, "busybox.tar"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "late.tar"))
	if err != nil {
		t.Fatal(err)
	}
	for len(whole) > 0 {
		part := whole[:min(len(whole), 1<<18)]
		if _, err := f.Write(part); err != nil {
			t.Fatal(err)
		}
		whole = whole[len(part):]
	}
	if status() != nil {
		t.Error("an archive was imported before it was closed")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if i := <-imported; i.File != f.Name() || i.Err != nil || len(i.Names) != 1 || status() == nil {
		t.Errorf("a late archive: %+v", i)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestStartNamesWhatIsMissing(t *testing.T) {
	bin := binaries.Dir(t)
	empty := t.TempDir()
	for name, c := range map[string]struct {
		cfg  containerd.Config
		want string
	}{
		"no directory": {containerd.Config{}, "containerd needs a data directory"},
		"no runc": {containerd.Config{DataDir: t.TempDir(), BinDir: empty},
			"runc is not in " + empty + "; put the files of the release side by side, or build them with `make build`"},
		"long path": {containerd.Config{DataDir: t.TempDir(), BinDir: bin,
			StateDir: "/run/" + strings.Repeat("x", 60)},
			"is 25 bytes too long for unix sockets; choose a shorter one"},
		"snapshotter": {containerd.Config{DataDir: t.TempDir(), BinDir: bin, Snapshotter: "zfs"},
			`snapshotter "zfs": must be overlayfs or native`},
	} {
		_, err := containerd.Start(t.Context(), c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %v", name, err, c.want)
		}
	}
}

func TestStartErrorCarriesContainerdLog(t *testing.T) {
	n := newNode(t)
	db := filepath.Join(n.cfg.DataDir, "containerd/root/io.containerd.metadata.v1.bolt/meta.db")
	if err := os.MkdirAll(filepath.Dir(db), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(db, []byte("not a database, but long enough to look at"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := containerd.Start(t.Context(), n.cfg)
	if err == nil || !strings.Contains(err.Error(), "its database is damaged") {
		t.Errorf("a damaged database: %v", err)
	}
}
