package lifecycle

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/testcluster"
)

// The requests that the runtime receives for a Pod of one container, their order and what is in
// them.
//
// row: CRI-05
// row: CRI-08
// row: CRI-09
// row: CRI-10
// row: CRI-13
// row: CRI-18
// row: CRI-21
func TestRequests(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	c.Runtime("node-1").SetRegistry([]crifake.Image{{Names: []string{"registry.test/web:1"}, Pull: 1500 * 1e6}})
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-7d8", Namespace: "default"}, Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Containers: []corev1.Container{{
			Name: "web", Image: "registry.test/web:1", Command: []string{"run"}, Args: []string{"--fast"},
			WorkingDir: "/srv", Env: []corev1.EnvVar{{Name: "COLOR", Value: "blue"}},
			VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch", ReadOnly: true}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("64Mi")},
				Limits:   corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("128Mi")},
			},
		}},
	}}
	made, err := c.Client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := watch(t.Context(), t, c.Client, "default")
	l := &podLife{T: t, runtimeUnderTest: &runtimeUnderTest{client: c.Client}, ctx: t.Context(), ns: "default", h: h}
	l.event("web", "Pulling", `Pulling image "registry.test/web:1"`)
	pending, err := c.Client.CoreV1().Pods("default").Get(t.Context(), "web-7d8", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pending.Status.Phase != corev1.PodPending {
		t.Errorf("phase %s while the image is pulled", pending.Status.Phase)
	}
	l.ready()
	var order []string
	var box *runtimeapi.PodSandboxConfig
	var container *runtimeapi.ContainerConfig
	for _, call := range c.Runtime("node-1").Calls() {
		order = append(order, call.Method)
		switch r := call.Request.(type) {
		case *runtimeapi.RunPodSandboxRequest:
			box = r.Config
		case *runtimeapi.CreateContainerRequest:
			container = r.Config
		}
	}
	if want := []string{"RunPodSandbox", "PullImage", "CreateContainer", "StartContainer"}; !slices.Equal(order, want) {
		t.Fatalf("calls %v, want %v", order, want)
	}
	sandbox(t, box, made)
	contents(t, container)
}

func sandbox(t *testing.T, box *runtimeapi.PodSandboxConfig, p *corev1.Pod) {
	t.Helper()
	if m := box.Metadata; m.Name != "web-7d8" || m.Namespace != "default" || m.Uid != string(p.UID) || m.Attempt != 0 {
		t.Errorf("metadata %v", m)
	}
	if box.Hostname != "web-7d8" {
		t.Errorf("host name %q", box.Hostname)
	}
	if want := "default_web-7d8_" + string(p.UID); filepath.Base(box.LogDirectory) != want {
		t.Errorf("log directory %s, want one named %s", box.LogDirectory, want)
	}
	if want := "/node-1/kubepods/burstable/pod" + string(p.UID); box.Linux.CgroupParent != want {
		t.Errorf("parent cgroup %s, want %s", box.Linux.CgroupParent, want)
	}
	if o := box.Linux.SecurityContext.NamespaceOptions; o.Network != runtimeapi.NamespaceMode_POD ||
		o.Pid != runtimeapi.NamespaceMode_CONTAINER || o.Ipc != runtimeapi.NamespaceMode_POD {
		t.Errorf("namespaces %v", o)
	}
}

func contents(t *testing.T, c *runtimeapi.ContainerConfig) {
	t.Helper()
	if c.Image.UserSpecifiedImage != "registry.test/web:1" || !slices.Equal(c.Command, []string{"run"}) ||
		!slices.Equal(c.Args, []string{"--fast"}) || c.WorkingDir != "/srv" {
		t.Errorf("image %v, command %v, args %v, working directory %s", c.Image, c.Command, c.Args, c.WorkingDir)
	}
	if !slices.ContainsFunc(c.Envs,
		func(e *runtimeapi.KeyValue) bool { return e.Key == "COLOR" && string(e.Value) == "blue" }) {
		t.Errorf("environment %v", c.Envs)
	}
	if !slices.ContainsFunc(c.Mounts, func(m *runtimeapi.Mount) bool {
		return m.ContainerPath == "/scratch" && m.Readonly && strings.HasSuffix(m.HostPath,
			"volumes/kubernetes.io~empty-dir/scratch")
	}) {
		t.Errorf("mounts %v", c.Mounts)
	}
	if r := c.Linux.Resources; r.CpuShares != 256 || r.MemoryLimitInBytes != 128<<20 {
		t.Errorf("resources %v", r)
	}
}

// row: NET-09
func TestNetworkThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	p := fakeRuntime(t)
	p.fault("RunPodSandbox", `2*error(failed to setup network for sandbox: plugin type="broken" failed (add))->ok`)
	Case{
		spec: `{containers: [{name: app, command: ` + runs + `}]}`,
		steps: func(l *podLife) {
			l.event("", "FailedCreatePodSandBox",
				"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox: "+
					"plugin type=\"broken\" failed (add)")
			l.ready()
		},
		expected: expected{phases: "Pending Running", conditions: allTrue},
	}.live(t, p)
}

// What starts containers and calls network plugins is the runtime alone: nothing in the kubelet can
// start a program but what these files do, and nothing in it links a runtime or a plugin.
//
// row: CRI-04
// row: NET-01
func TestOnlyTheRuntimeStartsContainers(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"images/credentialprovider/plugin.go", // credential provider plugins
		"server/nodelog/run.go",               // journalctl
		"userns/allocations/subids.go",        // getsubids
	}
	top := filepath.Join(binaries.Root(), "internal/kubelet")
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(top, path)
		for _, i := range f.Imports {
			switch what := strings.Trim(i.Path.Value, `"`); {
			case what == "os/exec" && !slices.Contains(allowed, name):
				t.Errorf("%s imports os/exec: containers are started through CRI; a program of another kind goes "+
					"into this test's list with its reason", name)
			case strings.HasPrefix(what, "github.com/containerd/"),
				strings.HasPrefix(what, "github.com/opencontainers/runc"),
				strings.HasPrefix(what, "github.com/containernetworking/"):
				t.Errorf("%s imports %s: that is the runtime's", name, what)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
