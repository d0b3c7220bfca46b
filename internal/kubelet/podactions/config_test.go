package podactions

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/images/pull"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volumemanager"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/test/wrappers"
)

// row: CRI-18
func TestExpand(t *testing.T) {
	lookup := func(name string) (string, bool) { v, ok := map[string]string{"A": "1", "E": ""}[name]; return v, ok }
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "1", "x$(A)y$(A)": "x1y1", "$$(A)": "$(A)", "$$$(A)": "$1", "$(NO)": "$(NO)",
		"$(A": "$(A", "$": "$", "a$": "a$", "$A": "$A", "$(E)": "", "$()": "$()",
	} {
		if got := expand(in, lookup); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if _, err := expandStrict("a/$(NONE)", lookup); err == nil || err.Error() != "missing value for NONE" {
		t.Errorf(`got %v, want error "missing value for NONE"`, err)
	}
}

// objects are ConfigMaps and Secrets by name.
type objects map[string]map[string]string

func (o objects) GetConfigMap(_ context.Context, ns, name string) (*v1.ConfigMap, error) {
	if d, ok := o[name]; ok {
		return &v1.ConfigMap{Data: d}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

func (o objects) GetSecret(_ context.Context, ns, name string) (*v1.Secret, error) {
	d, ok := o[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	s := &v1.Secret{Data: map[string][]byte{}}
	for k, v := range d {
		s.Data[k] = []byte(v)
	}
	return s, nil
}

// fakePorts are the ports of Executor that configuration needs.
type fakePorts struct {
	objects  objects
	services []*v1.Service
	events   []string
}

func (p *fakePorts) MountVolumes(context.Context, *v1.Pod) (map[string]volume.Mounted, error) {
	return nil, nil
}
func (p *fakePorts) RefreshVolumes(context.Context, *v1.Pod) error          { return nil }
func (p *fakePorts) UnmountVolumes(context.Context, types.UID) error        { return nil }
func (p *fakePorts) Objects() volume.Objects                                { return p.objects }
func (p *fakePorts) Services(string) ([]*v1.Service, error)                 { return p.services, nil }
func (p *fakePorts) RuntimeHandler(context.Context, string) (string, error) { return "", nil }
func (p *fakePorts) ObjectsPresent(context.Context, *v1.Pod) bool           { return true }
func (p *fakePorts) PrepareSubPath(_ context.Context, s volumemanager.SubPath) (string, error) {
	return s.Volume.Path + "/" + s.Path, nil
}
func (p *fakePorts) Event(_ runtime.Object, _, reason, message string) {
	p.events = append(p.events, reason+": "+message)
}

func testOperation(t *testing.T, p *fakePorts, pod *v1.Pod) *operation {
	h := New(Deps{
		Volumes: p, Cluster: p, Events: events.New(p), Journal: journal.Discard{},
		Node: Node{
			RootDir: t.TempDir(), LogDir: "/logs", ClusterDomain: "cluster.local", SeccompDefault: true,
			HostIPs:  func() []string { return []string{"192.0.2.1"} },
			Capacity: func() v1.ResourceList { return nil }, Allocatable: func() v1.ResourceList { return nil },
		},
	})
	c := &operation{executor: h, pod: pod, state: h.stateOf(pod.UID),
		observed: podplan.Observed{Sandboxes: []podplan.Sandbox{{ID: "s", Ready: true, IPs: []string{"10.0.0.5"}}}}}
	if err := os.MkdirAll(c.podDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	return c
}

func testPod(c v1.Container) *v1.Pod {
	return wrappers.MakePod().Namespace("ns").Name("p").UID("u").Label("l", "v").Containers(c).Obj()
}

// row: CRI-18
func TestEnvFromTakesAnyKey(t *testing.T) {
	c := v1.Container{Name: "c",
		EnvFrom: []v1.EnvFromSource{
			{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "cfg"}}}}}
	call := testOperation(t,
		&fakePorts{objects: objects{"cfg": {"ok": "1", "1bad": "2", "with-dash": "3", "with.dot": "4"}}}, testPod(c))
	m, _ := podplan.MemberOf(call.pod, "c")
	env, err := call.env(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1bad", "ok", "with-dash", "with.dot"}, env.names); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
}

// A Pod and a node with addresses of both families: the first of each list is the single address.
//
// row: DWN-02
// row: DWN-04
// row: DWN-07
// row: DWN-01
func TestAddressesInTheEnvironment(t *testing.T) {
	c := v1.Container{Name: "c"}
	for _, path := range []string{"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs", "spec.nodeName",
		"spec.serviceAccountName", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels['a/b']",
		"metadata.annotations['c']"} {
		c.Env = append(c.Env, v1.EnvVar{Name: path,
			ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}})
	}
	p := testPod(c)
	p.Spec.NodeName, p.Spec.ServiceAccountName = "n1", "builder"
	p.Name, p.Namespace, p.UID = "web-0", "shop", "0a1b"
	p.Labels, p.Annotations = map[string]string{"a/b": "l", "c": "no"}, map[string]string{"c": "x\ny", "a/b": "no"}
	register := c
	register.Name = "register"
	p.Spec.InitContainers = []v1.Container{register}
	call := testOperation(t, &fakePorts{}, p)
	call.executor.d.Node.HostIPs = func() []string { return []string{"192.0.2.1", "2001:db8::1"} }
	call.observed.Sandboxes[0].IPs = []string{"fd00::9", "10.0.0.9"}
	for name, host := range map[string]bool{"of its own": false, "the node's": true} {
		p.Spec.HostNetwork = host
		pod, pods := "fd00::9", "fd00::9,10.0.0.9"
		if host {
			pod, pods = "192.0.2.1", "192.0.2.1,2001:db8::1"
		}
		want := map[string]string{"status.hostIP": "192.0.2.1", "status.hostIPs": "192.0.2.1,2001:db8::1",
			"status.podIP": pod, "status.podIPs": pods, "spec.nodeName": "n1", "spec.serviceAccountName": "builder",
			"metadata.name": "web-0", "metadata.namespace": "shop", "metadata.uid": "0a1b",
			"metadata.labels['a/b']": "l", "metadata.annotations['c']": "x\ny"}
		for _, container := range []string{"register", "c"} {
			m, _ := podplan.MemberOf(p, container)
			env, err := call.env(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, env.values); diff != "" {
				t.Errorf("%s with a network %s: the two differ (-want +got):\n%s", container, name, diff)
			}
		}
	}
}

// A container sees its own sizes, or those of another that it names; a limit that it does not have
// is what the node can give.
//
// row: DWN-05
// row: DWN-06
func TestSizesInTheEnvironment(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	var env []v1.EnvVar
	want := map[string]string{}
	for _, x := range []struct{ container, resource, divisor, want string }{
		{"", "limits.cpu", "1m", "7000"}, {"", "limits.memory", "1Mi", "9216"}, {"", "requests.cpu", "1m", "250"},
		{"", "requests.memory", "0", "67108864"}, {"limited", "limits.cpu", "1m", "1500"},
		{"limited", "limits.memory", "1Mi", "512"}, {"limited", "limits.cpu", "0", "2"},
	} {
		name := x.container + " " + x.resource + " " + x.divisor
		want[name] = x.want
		env = append(env, v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{
			ContainerName: x.container, Resource: x.resource, Divisor: resource.MustParse(x.divisor)}}})
	}
	p := testPod(v1.Container{Name: "limited", Resources: v1.ResourceRequirements{Limits: list("1500m", "512Mi")}})
	p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "c", Env: env,
		Resources: v1.ResourceRequirements{Requests: list("250m", "64Mi")}})
	call := testOperation(t, &fakePorts{}, p)
	call.executor.d.Node.Capacity = func() v1.ResourceList { return list("8", "10Gi") }
	call.executor.d.Node.Allocatable = func() v1.ResourceList { return list("7", "9Gi") }
	m, _ := podplan.MemberOf(p, "c")
	got, err := call.env(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.values); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
}

// Whose processes a container sees: its own, all of its Pod, the node's, or those of the container
// that it debugs.
//
// row: ISE-31
// row: CRI-13
func TestProcessNamespaces(t *testing.T) {
	p := testPod(v1.Container{Name: "app"})
	p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "side"})
	p.Spec.EphemeralContainers = []v1.EphemeralContainer{
		{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debugger"}, TargetContainerName: "app"},
		{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "aimless"}}}
	call := testOperation(t, &fakePorts{}, p)
	call.observed.Containers = []podplan.Container{{ID: "app-id", Name: "app", Sandbox: "s", State: podplan.Running}}
	for _, c := range []struct {
		name, container string
		set             func(*v1.PodSpec)
		want            string
	}{
		{"alone", "app", func(*v1.PodSpec) {}, "CONTAINER "},
		{"shared", "app", func(s *v1.PodSpec) { s.ShareProcessNamespace = new(true) }, "POD "},
		{"not shared", "app", func(s *v1.PodSpec) { s.ShareProcessNamespace = new(false) }, "CONTAINER "},
		{"the node's", "app", func(s *v1.PodSpec) { s.HostPID = true }, "NODE "},
		{"debugger of app", "debugger", func(*v1.PodSpec) {}, "TARGET app-id"},
		{"debugger of app, shared", "debugger", func(s *v1.PodSpec) { s.ShareProcessNamespace = new(true) },
			"TARGET app-id"},
		{"debugger of nothing", "aimless", func(*v1.PodSpec) {}, "CONTAINER "},
		{"debugger of nothing, shared", "aimless", func(s *v1.PodSpec) { s.ShareProcessNamespace = new(true) }, "POD "},
		{"debugger of nothing, the node's", "aimless", func(s *v1.PodSpec) { s.HostPID = true }, "NODE "},
		{"one of two", "side", func(*v1.PodSpec) {}, "CONTAINER "},
		{"one of two, shared", "side", func(s *v1.PodSpec) { s.ShareProcessNamespace = new(true) }, "POD "},
	} {
		p.Spec.ShareProcessNamespace, p.Spec.HostPID = nil, false
		c.set(&p.Spec)
		m, _ := podplan.MemberOf(p, c.container)
		n := call.namespacesOf(m)
		if got := n.Pid.String() + " " + n.TargetId; got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		sandbox := namespaces(p)
		if shown, _, _ := strings.Cut(c.want, " "); shown != "TARGET" && sandbox.Pid.String() != shown ||
			sandbox.Network != runtimeapi.NamespaceMode_POD || sandbox.Ipc != runtimeapi.NamespaceMode_POD {
			t.Errorf("%s: got a sandbox with %v, want processes as %s and the Pod's network", c.name, sandbox, c.want)
		}
	}
}

// puller notes what it is asked for; the images of missing are not there.
type puller struct {
	asked   []string
	missing string
}

func (p *puller) EnsureImageExists(_ context.Context, r pull.Request) (string, error) {
	name := r.Image
	if r.Container != nil {
		name = r.Container.Image
	}
	p.asked = append(p.asked, strings.Join(strings.Fields(name+" "+string(r.Policy)+" "+r.FieldPath), " "))
	if name == p.missing {
		return "", &reason.Refusal{Code: reason.ErrImagePull, Detail: "no"}
	}
	return "sha256:" + name, nil
}

func TestImageVolumesArePulledBeforeTheContainersImage(t *testing.T) {
	c := v1.Container{Name: "c", Image: "own", VolumeMounts: []v1.VolumeMount{{Name: "i", MountPath: "/i"},
		{Name: "d", MountPath: "/d"}, {Name: "i", MountPath: "/j"}}}
	p, pulls := &fakePorts{}, &puller{}
	call := testOperation(t, p, testPod(c))
	call.executor.d.Puller = pulls
	call.state.mounted = map[string]volume.Mounted{"i": {Image: "data", PullPolicy: v1.PullAlways}, "d": {Path: "/vol"},
		"other": {Image: "notmounted"}}
	m, _ := podplan.MemberOf(call.pod, "c")
	ref, err := call.ensureImages(t.Context(), m, nil)
	if err != nil || ref != "sha256:own" || call.images["i"].Image != "sha256:data" ||
		call.images["i"].UserSpecifiedImage != "data" {
		t.Errorf("got %q %v %v, want no error, ref sha256:own, Image sha256:data and UserSpecifiedImage data", ref,
			call.images, err)
	}
	if diff := cmp.Diff([]string{"data Always", "own spec.containers{c}"}, pulls.asked); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
	pulls.missing = "data"
	var refusal *reason.Refusal
	if _, err := call.ensureImages(t.Context(), m, nil); !errors.As(err, &refusal) ||
		refusal.Code != reason.ErrImagePull {
		t.Errorf("got %v, want an error that is a refusal and Code ErrImagePull", err)
	}
	if diff := cmp.Diff([]string{"Failed: Error: ErrImagePull"}, p.events); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
}

// row: CRI-18
func TestEnvironment(t *testing.T) {
	yes := true
	c := v1.Container{
		Name: "c",
		EnvFrom: []v1.EnvFromSource{
			{Prefix: "P_",
				ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "cm"}}},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"},
				Optional: &yes}}},
		Env: []v1.EnvVar{
			{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)-$(P_k)-$(KUBERNETES_SERVICE_HOST)-$(C)"},
			{Name: "L", ValueFrom: &v1.EnvVarSource{
				FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels['l']"}}},
			{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "K", ValueFrom: &v1.EnvVarSource{
				ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "cm"},
					Key: "k"}}},
			{Name: "OPT",
				ValueFrom: &v1.EnvVarSource{
					SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "none"},
						Key: "k", Optional: &yes}}},
		},
	}
	p := &fakePorts{objects: objects{"cm": {"k": "v"}}, services: []*v1.Service{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Spec: v1.ServiceSpec{ClusterIP: "10.96.0.1",
				Ports: []v1.ServicePort{{Name: "https", Port: 443, Protocol: "TCP"}}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "headless"}, Spec: v1.ServiceSpec{ClusterIP: "None"}},
	}}
	call := testOperation(t, p, testPod(c))
	m, _ := podplan.MemberOf(call.pod, "c")
	env, err := call.env(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, kv := range env.list() {
		got = append(got, kv.Key+"="+string(kv.Value))
	}
	want := []string{
		"P_k=v", "A=1", "B=1-v-10.96.0.1-$(C)", "L=v", "IP=10.0.0.5", "K=v",
		"KUBERNETES_PORT=tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443",
		"KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1", "KUBERNETES_PORT_443_TCP_PORT=443",
		"KUBERNETES_PORT_443_TCP_PROTO=tcp", "KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443",
		"KUBERNETES_SERVICE_PORT_HTTPS=443",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
	for key, text := range map[string]string{"gone": `couldn't find key gone in ConfigMap ns/cm`} {
		call.pod.Spec.Containers[0].Env = []v1.EnvVar{
			{Name: "X", ValueFrom: &v1.EnvVarSource{
				ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "cm"},
					Key: key}}}}
		m, _ = podplan.MemberOf(call.pod, "c")
		if _, err := call.env(t.Context(), m); err == nil || err.Error() != text {
			t.Errorf("got %v, want error %v", err, text)
		}
	}
}

// row: CRI-18
func TestEnvFile(t *testing.T) {
	got, err := parseEnvFile(strings.NewReader("# c\n\nA='x y'\nB='two\nlines' # c\nC=''\n"))
	if diff := cmp.Diff(map[string]string{"A": "x y", "B": "two\nlines", "C": ""}, got); diff != "" || err != nil {
		t.Errorf("got %v, %v, want diff empty and no error", diff, err)
	}
	for _, bad := range []string{"A", "A=x", "A='x", "A='x' y"} {
		if _, err := parseEnvFile(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	// A link that leads out of the volume is not followed.
	c := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c"}))
	vol, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("K='stolen'\n"), 0o600),
		os.Symlink(secret, filepath.Join(vol, "env"))); err != nil {
		t.Fatal(err)
	}
	c.state.mounted = map[string]volume.Mounted{"v": {Path: vol}}
	if v, _, err := c.fileKey(&v1.FileKeySelector{VolumeName: "v", Path: "env", Key: "K"}); err == nil {
		t.Errorf("read %q through a link", v)
	}
}

// row: CRI-11
func TestDNS(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, []byte("# c\nnameserver 192.0.2.53\nsearch example.test.\noptions ndots:1\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	host := &runtimeapi.DNSConfig{Servers: []string{"192.0.2.53"}, Searches: []string{"example.test"},
		Options: []string{"ndots:1"}}
	cluster := &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"},
		Searches: []string{"ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.test"},
		Options:  []string{"ndots:5"}}
	two := "2"
	for _, c := range []struct {
		name   string
		change func(*v1.Pod, *Node)
		want   *runtimeapi.DNSConfig
		warned string
	}{
		{"Default", func(p *v1.Pod, n *Node) { p.Spec.DNSPolicy = v1.DNSDefault }, host, ""},
		{"ClusterFirst", func(p *v1.Pod, n *Node) { n.ClusterDNS = []string{"10.96.0.10"} }, cluster, ""},
		{"ClusterFirst without a cluster DNS", func(p *v1.Pod, n *Node) {}, host, "MissingClusterDNS"},
		{"ClusterFirst on the host's network",
			func(p *v1.Pod, n *Node) { n.ClusterDNS, p.Spec.HostNetwork = []string{"10.96.0.10"}, true }, host, ""},
		{"ClusterFirstWithHostNet", func(p *v1.Pod, n *Node) {
			n.ClusterDNS, p.Spec.HostNetwork, p.Spec.DNSPolicy = []string{"10.96.0.10"}, true,
				v1.DNSClusterFirstWithHostNet
		}, cluster, ""},
		{"None", func(p *v1.Pod, n *Node) {
			p.Spec.DNSPolicy = v1.DNSNone
			p.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"1.1.1.1"}, Searches: []string{"s"},
				Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: &two}, {Name: "edns0"}}}
		}, &runtimeapi.DNSConfig{Servers: []string{"1.1.1.1"}, Searches: []string{"s"},
			Options: []string{"ndots:2", "edns0"}}, ""},
		{"an option of the Pod's own", func(p *v1.Pod, n *Node) {
			p.Spec.DNSPolicy, p.Spec.DNSConfig = v1.DNSDefault,
				&v1.PodDNSConfig{Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: &two}}}
		}, &runtimeapi.DNSConfig{Servers: host.Servers, Searches: host.Searches, Options: []string{"ndots:2"}}, ""},
		{"too many servers", func(p *v1.Pod, n *Node) {
			p.Spec.DNSPolicy, p.Spec.DNSConfig = v1.DNSNone,
				&v1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"}}
		}, &runtimeapi.DNSConfig{Servers: []string{"1.1.1.1", "1.1.1.2", "1.1.1.3"}}, "DNSConfigForming"},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c"}))
			call.pod.Spec.DNSPolicy = v1.DNSClusterFirst
			call.executor.d.Node.ResolvConf = conf
			c.change(call.pod, &call.executor.d.Node)
			warned := ""
			got, err := call.dns(func(reason, _ string) { warned = reason })
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != c.want.String() || warned != c.warned {
				t.Errorf("got %v %s, want %v and warned %v", got, warned, c.want.String(), c.warned)
			}
		})
	}
}

// row: CRI-09
func TestHostnames(t *testing.T) {
	yes, override := true, "over"
	for _, c := range []struct {
		change func(*v1.Pod)
		want   string
	}{
		{func(p *v1.Pod) {}, "p"},
		{func(p *v1.Pod) { p.Name = strings.Repeat("a", 62) + "-b" }, strings.Repeat("a", 62)},
		{func(p *v1.Pod) { p.Spec.Hostname = "h" }, "h"},
		{func(p *v1.Pod) { p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "h", "d", &yes },
			"h.d.ns.svc.cluster.local"},
		{func(p *v1.Pod) { p.Spec.HostNetwork = true }, ""},
		{func(p *v1.Pod) { p.Spec.HostnameOverride = &override }, "over"},
	} {
		call := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c"}))
		c.change(call.pod)
		cfg, err := call.sandboxConfig(t.Context(), 0, func(string, string) {})
		if err != nil || cfg.Hostname != c.want {
			t.Errorf("%q %v, want %q", cfg.GetHostname(), err, c.want)
		}
	}
}

func TestHostsFile(t *testing.T) {
	call := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c"}))
	call.pod.Spec.Subdomain = "d"
	call.pod.Spec.HostAliases = []v1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"x", "y"}}}
	path, err := call.hostsFile()
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(path)
	for _, line := range []string{"127.0.0.1\tlocalhost\n", "10.0.0.5\tp.d.ns.svc.cluster.local\tp\n",
		"# Entries added by HostAliases.\n1.2.3.4\tx\ty\n"} {
		if !strings.Contains(string(raw), line) {
			t.Errorf("%q is not in\n%s", line, raw)
		}
	}
}

// row: SEC-01
// row: SEC-02
// row: SEC-03
func TestSecurity(t *testing.T) {
	yes, refusal, seven, eight := true, false, int64(7), int64(8)
	path := "p.json"
	c := v1.Container{Name: "c", SecurityContext: &v1.SecurityContext{
		RunAsUser: &eight, ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &refusal,
		Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}, Drop: []v1.Capability{"ALL", "CHOWN"}},
	}}
	call := testOperation(t, &fakePorts{}, testPod(c))
	call.pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: &seven, RunAsGroup: &seven, FSGroup: &eight,
		SupplementalGroups: []int64{9}, SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost,
			LocalhostProfile: &path}}
	m, _ := podplan.MemberOf(call.pod, "c")
	s, err := call.securityContext(t.Context(), m, "img")
	if err != nil {
		t.Fatal(err)
	}
	if s.RunAsUser.GetValue() != 8 || s.RunAsGroup.GetValue() != 7 || !s.ReadonlyRootfs || !s.NoNewPrivs ||
		!slices.Equal(s.SupplementalGroups, []int64{8, 9}) ||
		!slices.Equal(s.Capabilities.DropCapabilities, []string{"ALL", "CHOWN"}) ||
		!slices.Equal(s.Capabilities.AddCapabilities, []string{"NET_ADMIN"}) || len(s.MaskedPaths) == 0 {
		t.Errorf("got %+v, want Value 8, Value 7, ReadonlyRootfs true, NoNewPrivs true, SupplementalGroups 8 and 9, "+
			"DropCapabilities ALL and CHOWN, AddCapabilities NET_ADMIN and some MaskedPaths", s)
	}
	if s.Seccomp.GetProfileType() != runtimeapi.SecurityProfile_Localhost ||
		s.Seccomp.LocalhostRef != filepath.Join(call.executor.d.Node.RootDir, "seccomp", "p.json") {
		t.Errorf("got %+v, want Localhost with seccomp/p.json of the root directory", s.Seccomp)
	}
	own := c
	own.SecurityContext = &v1.SecurityContext{
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}}
	call.pod.Spec.InitContainers = []v1.Container{own}
	call.pod.Spec.InitContainers[0].Name = "first"
	first, _ := podplan.MemberOf(call.pod, "first")
	if s, err := call.securityContext(t.Context(), first, "img"); err != nil || s.RunAsUser.GetValue() != 7 ||
		s.RunAsGroup.GetValue() != 7 || s.Seccomp.GetProfileType() != runtimeapi.SecurityProfile_RuntimeDefault {
		t.Errorf("got %+v, %v, want the Pod's ids, and of the two profiles the container's own", s, err)
	}
	if d := call.seccomp(nil, false); d.ProfileType != runtimeapi.SecurityProfile_RuntimeDefault {
		t.Errorf("the default is %v", d)
	}
	if d := call.seccomp(nil, true); d.ProfileType != runtimeapi.SecurityProfile_Unconfined {
		t.Errorf("privileged: got %v, want ProfileType %v", d, runtimeapi.SecurityProfile_Unconfined)
	}
	zero := int64(0)
	call.pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsUser: &zero, RunAsNonRoot: &yes}
	m, _ = podplan.MemberOf(call.pod, "c")
	if _, err := call.securityContext(t.Context(), m, "img"); err == nil ||
		err.Error() != `container's runAsUser breaks non-root policy (pod: "p_ns(u)", container: c)` {
		t.Errorf(`got %v, want error "container's runAsUser breaks non-root policy (pod: \"p_…"`, err)
	}
}

// imageOf answers for every image that it has this user.
type imageOf struct {
	internalapi.ImageManagerService
	uid  *runtimeapi.Int64Value
	name string
}

func (i imageOf) ImageStatus(context.Context, *runtimeapi.ImageSpec, bool) (*runtimeapi.ImageStatusResponse, error) {
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "img", Uid: i.uid, Username: i.name}}, nil
}

// Where nothing names a user, that of the image decides whether runAsNonRoot is kept; a container's
// own word comes before the Pod's.
//
// row: SEC-02
func TestRunAsNonRootAndTheImagesUser(t *testing.T) {
	yes, no, seven, zero := true, false, int64(7), int64(0)
	const asRoot = `container has runAsNonRoot and image will run as root (pod: "p_ns(u)", container: c)`
	for name, x := range map[string]struct {
		image    imageOf
		pod      v1.PodSecurityContext
		own      v1.SecurityContext
		refused  string
		user     int64 // -1: the runtime takes the image's
		username string
	}{
		"root by number": {image: imageOf{uid: &runtimeapi.Int64Value{}}, own: v1.SecurityContext{RunAsNonRoot: &yes},
			refused: asRoot},
		"root by default": {own: v1.SecurityContext{RunAsNonRoot: &yes}, refused: asRoot},
		"the Pod's word":  {pod: v1.PodSecurityContext{RunAsNonRoot: &yes}, refused: asRoot},
		"the container's before the Pod's": {pod: v1.PodSecurityContext{RunAsNonRoot: &yes},
			own: v1.SecurityContext{RunAsNonRoot: &no}, user: -1},
		"a user by name": {image: imageOf{name: "web"}, own: v1.SecurityContext{RunAsNonRoot: &yes},
			refused: `container has runAsNonRoot and image has non-numeric user (web), cannot verify user is ` +
				`non-root (pod: "p_ns(u)", container: c)`},
		"another user": {image: imageOf{uid: &runtimeapi.Int64Value{Value: 5}},
			own: v1.SecurityContext{RunAsNonRoot: &yes}, user: -1},
		"a user of the Pod": {pod: v1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &seven}, user: 7},
		"root of the Pod": {pod: v1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &zero},
			refused: `container's runAsUser breaks non-root policy (pod: "p_ns(u)", container: c)`},
		"a group takes the image's user": {image: imageOf{uid: &runtimeapi.Int64Value{Value: 5}},
			own: v1.SecurityContext{RunAsGroup: &seven}, user: 5},
		"a group takes the image's user's name": {image: imageOf{name: "web"},
			pod: v1.PodSecurityContext{RunAsGroup: &seven}, user: -1, username: "web"},
		"nothing asked": {user: -1},
	} {
		call := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c", SecurityContext: &x.own}))
		call.executor.d.Images, call.pod.Spec.SecurityContext = x.image, &x.pod
		m, _ := podplan.MemberOf(call.pod, "c")
		s, err := call.securityContext(t.Context(), m, "img")
		switch {
		case x.refused != "":
			if err == nil || err.Error() != x.refused {
				t.Errorf("%s: got %+v, %v, want error %s", name, s, err, x.refused)
			}
		case err != nil || (s.RunAsUser == nil) != (x.user < 0) || s.RunAsUser.GetValue() != max(x.user, 0) ||
			s.RunAsUsername != x.username:
			t.Errorf("%s: got %+v, %v, want user %d (%s)", name, s, err, x.user, x.username)
		}
	}
}

// row: CRI-18
func TestMounts(t *testing.T) {
	c := v1.Container{Name: "c", TerminationMessagePath: "/dev/termination-log",
		Env: []v1.EnvVar{{Name: "A", Value: "x"}}, VolumeMounts: []v1.VolumeMount{
			{Name: "v", MountPath: "/v", ReadOnly: true}, {Name: "v", MountPath: "/s", SubPathExpr: "a/$(A)"},
			{Name: "i", MountPath: "/i", SubPath: "in"}, {Name: "v", MountPath: "/etc/hosts"},
		}}
	call := testOperation(t, &fakePorts{}, testPod(c))
	call.state.mounted = map[string]volume.Mounted{"v": {Path: "/vol"}, "i": {Image: "img"}}
	call.images = map[string]*runtimeapi.ImageSpec{"i": {Image: "img"}}
	m, _ := podplan.MemberOf(call.pod, "c")
	env, err := call.env(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := call.mounts(t.Context(), m, env)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 5 || !got[0].Readonly || got[1].HostPath != "/vol/a/x" || got[2].Image.Image != "img" ||
		got[2].ImageSubPath != "in" || got[4].ContainerPath != "/dev/termination-log" {
		t.Errorf("got %v, want 5 in got, Readonly true, HostPath /vol/a/x, Image img, ImageSubPath in and "+
			"ContainerPath /dev/termination-log", got)
	}
	if st, err := os.Stat(got[4].HostPath); err != nil || st.Mode().Perm() != 0o666 {
		t.Error("the container cannot write its last words", err)
	}
	call.pod.Spec.Containers[0].VolumeMounts[0].Name = "none"
	m, _ = podplan.MemberOf(call.pod, "c")
	if _, err := call.mounts(t.Context(), m, env); err == nil {
		t.Error("a volume that is not there was mounted")
	}
}
