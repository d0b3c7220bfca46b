package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/linux/mount"
	"github.com/gantry-project/gantry/test/wrappers"
)

// rig is a node over the fake runtime and client-go's fake API, in virtual time.
type rig struct {
	t      *testing.T
	fake   *crifake.Fake
	cri    *cri.Client
	api    *fake.Clientset
	root   string
	groups *groups
	facts  *facts
	events *eventLog
	stop   func()
	k      *kubelet.Kubelet
	with   func(*kubelet.Options) // what is different this time; nil: nothing
}

// runTest runs a test in virtual time.
func runTest(t *testing.T, test func(r *rig)) {
	t.Helper()
	root, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, root)
		r.start()
		defer r.fake.Close()
		defer func() { r.stop() }()
		test(r)
	})
}

func newRig(t *testing.T, root string) *rig {
	t.Helper()
	r := &rig{t: t, root: root, groups: &groups{has: map[string]bool{}}, facts: &facts{}, events: &eventLog{}}
	var err error
	r.fake, err = crifake.Start(crifake.Options{Dir: filepath.Join(root, "cri"), InMemory: true,
		Images: []crifake.Image{{Names: []string{"busybox:1"}}}, Registry: []crifake.Image{}})
	if err != nil {
		t.Fatal(err)
	}
	r.api = fake.NewClientset(&v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-n1"},
		Status: v1.NodeStatus{
			Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"),
				v1.ResourceMemory: resource.MustParse("4Gi"), v1.ResourcePods: resource.MustParse("110")},
			Capacity: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"),
				v1.ResourceMemory: resource.MustParse("4Gi")},
		},
	})
	return r
}

// start begins a kubelet and lets it come to rest.
func (r *rig) start() {
	r.t.Helper()
	r.begin()
	synctest.Wait()
}

// begin begins a kubelet; stop ends it as a kill would: containers go on.
func (r *rig) begin() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	client, err := cri.Dial(ctx, cri.Options{Endpoint: "/fake", Dialer: r.fake.Dialer(), Journal: r.facts})
	if err != nil {
		r.t.Fatal(err)
	}
	r.cri = client
	none := ""
	o := kubelet.Options{
		Client: r.api, NodeName: "n1", Runtime: client.Runtime(), Images: client.Images(),
		RootDir: filepath.Join(r.root, "kubelet"), LogDir: filepath.Join(r.root, "logs"),
		Dependencies: kubelet.Dependencies{HostIPs: func() []string { return []string{"192.0.2.1"} }, Cgroups: r.groups,
			Mounts: mount.DirMounter{}},
		Config: &kubeletconfig.KubeletConfiguration{ResolverConfig: &none}, Recorder: r.events, Journal: r.facts,
		Resources: kubeletresource.Options{CFSQuota: true},
	}
	if r.with != nil {
		r.with(&o)
	}
	k, err := kubelet.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	r.k = k
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
		client.Close()
	}
}

// advance lets time go by.
func (r *rig) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) create(pod *v1.Pod) {
	r.t.Helper()
	if _, err := r.api.CoreV1().Pods(pod.Namespace).Create(context.Background(), pod, metav1.CreateOptions{}); err !=
		nil {
		r.t.Fatal(err)
	}
	r.advance(500 * time.Millisecond)
}

func (r *rig) get(name string) *v1.Pod {
	r.t.Helper()
	p, err := r.api.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return p
}

func (r *rig) delete(name string, grace int64) {
	r.t.Helper()
	p := r.get(name).DeepCopy()
	now := metav1.Now()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
	p.Generation++
	if _, err := r.api.CoreV1().Pods("default").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// pod makes a Pod that the defaulter has seen.
func pod(name string, containers ...v1.Container) *v1.Pod {
	return wrappers.MakePod().Namespace("default").Name(name).UID("uid-"+name).Generation(1).Node("n1").
		RestartPolicy(v1.RestartPolicyAlways).TerminationGracePeriodSeconds(30).Containers(containers...).
		Phase(v1.PodPending).Condition(v1.PodScheduled, v1.ConditionTrue).
		Obj(func(p *v1.Pod) { p.Spec.DNSPolicy = v1.DNSDefault })
}

func scriptContainer(name, script string) v1.Container {
	return v1.Container{
		Name: name, Image: "busybox:1", Command: []string{"sh", "-c", script}, ImagePullPolicy: v1.PullIfNotPresent,
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
	}
}

// groups is a cgroup tree in memory.
type groups struct {
	mu    sync.Mutex
	has   map[string]bool
	given map[string][]string // memory and quota, by the last element of the path
	// what bounds the memory of a cgroup is refused, as of Pods that exceed it already
	refuseMemory bool
}

func (g *groups) Ensure(p string, v kubeletresource.Values) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.has[p] = true
	if g.refuseMemory && v.Memory != nil {
		return errors.New("device or resource busy")
	}
	if v.Memory != nil || v.Quota != nil {
		text := ""
		if v.Memory != nil {
			text += fmt.Sprintf("memory=%d", *v.Memory)
		}
		if v.Quota != nil {
			text += fmt.Sprintf(" quota=%d", *v.Quota)
		}
		if g.given == nil {
			g.given = map[string][]string{}
		}
		g.given[path.Base(p)] = append(g.given[path.Base(p)], text)
	}
	return nil
}

// log is what a cgroup was given, one after another.
func (g *groups) log(name string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.given[name], "; ")
}

func (g *groups) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.given = nil
}

func (g *groups) Remove(p string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.has, p)
	return nil
}

func (g *groups) List(parent string) ([]string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []string
	for p := range g.has {
		if path.Dir(p) == parent {
			out = append(out, path.Base(p))
		}
	}
	return out, nil
}

func (g *groups) pods() (out []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.has {
		if strings.HasPrefix(path.Base(p), "pod") {
			out = append(out, p)
		}
	}
	return out
}

// facts is a journal in memory.
type facts struct {
	mu   sync.Mutex
	list []string
}

func (f *facts) Put(ref journal.Ref, fact journal.Fact) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, ref.Name+" "+journal.Kind(fact)+": "+fact.Line())
}

func (f *facts) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.list, "\n")
}

// eventLog keeps events.
type eventLog struct {
	mu   sync.Mutex
	list []string
}

func (e *eventLog) Event(o runtime.Object, kind, why, message string) {
	ref := o.(*v1.ObjectReference)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, fmt.Sprintf("%s %s %s %s: %s", ref.Name, ref.FieldPath, kind, why, message))
}
func (e *eventLog) Eventf(o runtime.Object, kind, why, format string, args ...any) {
	e.Event(o, kind, why, fmt.Sprintf(format, args...))
}
func (e *eventLog) AnnotatedEventf(o runtime.Object, _ map[string]string, kind, why, format string, args ...any) {
	e.Eventf(o, kind, why, format, args...)
}

func (e *eventLog) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.list, "\n")
}

func (e *eventLog) count(part string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.list {
		if strings.Contains(l, part) {
			n++
		}
	}
	return n
}

// behindTheKubelet calls the runtime over a connection of its own.
func (r *rig) behindTheKubelet(call func(ctx context.Context, c *cri.Client) error) {
	r.t.Helper()
	ctx := context.Background()
	client, err := cri.Dial(ctx, cri.Options{Endpoint: "/fake", Dialer: r.fake.Dialer()})
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	if err := call(ctx, client); err != nil {
		r.t.Fatal(err)
	}
}

// removeContainer takes a dead container's record out of the runtime.
func (r *rig) removeContainer(id string) {
	r.t.Helper()
	r.behindTheKubelet(func(ctx context.Context, c *cri.Client) error { return c.Runtime().RemoveContainer(ctx, id) })
}

// killSandbox ends a Pod's sandboxes behind the kubelet's back.
func (r *rig) killSandbox(name string) {
	r.t.Helper()
	r.behindTheKubelet(func(ctx context.Context, c *cri.Client) error {
		list, err := c.Runtime().ListPodSandbox(ctx, nil)
		for _, s := range list {
			if s.Metadata.Name == name {
				err = errors.Join(err, c.Runtime().StopPodSandbox(ctx, s.Id))
			}
		}
		return err
	})
}
