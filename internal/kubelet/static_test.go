package kubelet_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/podsource/static"
	"github.com/gantry-project/gantry/test/expect"
)

// rules are enough of the API's for the Pods of these tests.
var rules = static.Rules{
	Default: func(p *v1.Pod) {
		p.Spec.RestartPolicy, p.Spec.DNSPolicy = v1.RestartPolicyAlways, v1.DNSDefault
		for i := range p.Spec.Containers {
			c := &p.Spec.Containers[i]
			c.ImagePullPolicy, c.TerminationMessagePath, c.TerminationMessagePolicy = v1.PullIfNotPresent,
				"/dev/termination-log", v1.TerminationMessageReadFile
		}
	},
	Validate: func(*v1.Pod) field.ErrorList { return nil },
}

// live is a node in real time with a directory of manifests.
func live(t *testing.T, with func(*kubelet.Options)) (*rig, string) {
	t.Helper()
	r := newRig(t, t.TempDir())
	dir := filepath.Join(r.root, "manifests")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	uids := atomic.Int64{}
	// as the API server does
	r.api.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		p := a.(clienttesting.CreateAction).GetObject().(*v1.Pod)
		if p.UID == "" {
			p.UID = types.UID("api-" + string(rune('a'+uids.Add(1))))
		}
		return false, nil, nil
	})
	r.with = func(o *kubelet.Options) {
		o.StaticPods.Rules = rules
		o.Config.StaticPodPath = dir
		if with != nil {
			with(o)
		}
	}
	t.Cleanup(func() {
		r.stop()
		r.fake.Close()
	})
	return r, dir
}

func put(t *testing.T, dir, file, content string) {
	t.Helper()
	tmp := filepath.Join(dir, "."+file)
	if err := os.WriteFile(tmp, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, file)); err != nil {
		t.Fatal(err)
	}
}

func manifest(name, more string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  terminationGracePeriodSeconds: 1\n  " +
		"containers:\n  - name: c\n    image: busybox:1\n    command: [sh, -c, \"" + runs + "\"]\n" + more
}

// eventually waits until something holds.
func (r *rig) eventually(what string, holds func() bool) {
	r.t.Helper()
	end := time.Now().Add(expect.Patience(2 * time.Minute))
	for ; time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	r.t.Fatalf("%s does not come\n%s\n%s\n%s", what, r.facts.text(), r.events.text(), r.fake.Dump())
}

func (r *rig) container(name string) string {
	p, ok := r.k.PodByName("default", name)
	if !ok || len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Running == nil {
		return ""
	}
	return p.Status.ContainerStatuses[0].ContainerID
}

func (r *rig) running(name string) string {
	r.t.Helper()
	id := ""
	r.eventually(name+" running", func() bool { id = r.container(name); return id != "" })
	return id
}

// row: STA-01
// row: STA-03
// row: STA-06
// row: STA-07
// row: STA-12
// row: KSL-14
// row: KSL-16
func TestFileOfADirectoryRunsAndIsMirrored(t *testing.T) {
	t.Parallel()
	r, dir := live(t, func(o *kubelet.Options) {
		o.Config.FileCheckFrequency.Duration = time.Hour // what is read sooner was noticed
	})
	put(t, dir, "api.json",
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"api"},"spec":{"terminationGracePeriodSeconds":1,`+
			`"containers":[{"name":"c","image":"busybox:1","command":["sh","-c","`+runs+`"]}]}}`)
	r.begin()
	r.running("api-n1") // the directory has been read
	put(t, dir, "etcd.yaml", strings.Replace(manifest("etcd", ""), "{name: etcd}",
		"{name: etcd, namespace: kube-system, labels: {tier: control-plane}}", 1))
	r.eventually("the mirror in the namespace of the file", func() bool {
		p, err := r.api.CoreV1().Pods("kube-system").Get(context.Background(), "etcd-n1", metav1.GetOptions{})
		return err == nil && p.Status.Phase == v1.PodRunning && p.Labels["tier"] == "control-plane" &&
			p.Spec.Containers[0].Image == "busybox:1"
	})
	if r.get("etcd-n1") != nil {
		t.Error("there is a mirror in another namespace too")
	}
	put(t, dir, "web.yaml", manifest("web", ""))
	r.running("web-n1")
	r.eventually("mirror with its status",
		func() bool { p := r.get("web-n1"); return p != nil && p.Status.Phase == v1.PodRunning })
	m := r.get("web-n1")
	own, _ := r.k.PodByName("default", "web-n1")
	if m.Spec.NodeName != "n1" || m.Annotations["kubernetes.io/config.mirror"] != string(own.UID) ||
		m.Annotations["kubernetes.io/config.source"] != "file" || m.UID == own.UID {
		t.Errorf("got %+v, want NodeName n1, Annotations[kubernetes.io/config.mirror] %v, "+
			"Annotations[kubernetes.io/config.source] file and UID other than %v", m.ObjectMeta, string(own.UID),
			own.UID)
	}
	if o := m.OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].UID != "uid-n1" || !*o[0].Controller {
		t.Errorf("got %+v, want 1 in o, Kind Node, UID uid-n1 and Controller true", o)
	}
	if err := os.Remove(filepath.Join(dir, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	r.eventually("end of the mirror", func() bool { return r.get("web-n1") == nil })
	r.eventually("the runtime without it", func() bool { return !strings.Contains(r.fake.Dump(), "web-n1") })
	for _, a := range r.api.Actions() {
		if a.GetSubresource() == "binding" {
			t.Error("a binding was asked for")
		}
	}
	r.running("api-n1")
	if facts := r.facts.text(); strings.Contains(facts, "StaticPodInvalid") {
		t.Errorf("a source that is not configured is asked: %s", facts)
	}
}

// row: STA-04
// row: STA-05
func TestMirrorIsOneWay(t *testing.T) {
	t.Parallel()
	r, dir := live(t, nil)
	put(t, dir, "web.yaml", manifest("web", ""))
	r.begin()
	id := r.running("web-n1")
	r.eventually("mirror", func() bool { return r.get("web-n1") != nil })
	first := r.get("web-n1")
	edited := first.DeepCopy()
	edited.Labels = map[string]string{"a": "b"}
	edited.Spec.Containers[0].Image = "other:2"
	if _, err := r.api.CoreV1().Pods("default").Update(context.Background(), edited, metav1.UpdateOptions{}); err !=
		nil {
		t.Fatal(err)
	}
	put(t, dir, "later.yaml", manifest("later", "")) // when it has its mirror, the edit has come long since
	r.eventually("the mirror of another", func() bool {
		p := r.get("later-n1")
		return p != nil && p.Status.Phase == v1.PodRunning
	})
	if own, _ := r.k.PodByName("default", "web-n1"); r.container("web-n1") != id || own.Labels["a"] != "" ||
		own.Spec.Containers[0].Image != "busybox:1" {
		t.Errorf("after an edit of its mirror: container %s, was %s, Pod %+v", r.container("web-n1"), id, own)
	}
	if err := os.Remove(filepath.Join(dir, "later.yaml")); err != nil {
		t.Fatal(err)
	}
	r.eventually("the end of the other", func() bool { return len(r.k.Pods()) == 1 })
	if err := r.api.CoreV1().Pods("default").Delete(context.Background(), "web-n1", metav1.DeleteOptions{}); err !=
		nil {
		t.Fatal(err)
	}
	r.eventually("a new mirror, running", func() bool {
		p := r.get("web-n1")
		return p != nil && p.UID != first.UID && p.Status.Phase == v1.PodRunning
	})
	if now := r.container("web-n1"); now != id {
		t.Errorf("container %s became %s", id, now)
	}
	if all := r.k.Pods(); len(all) != 1 || all[0].Spec.Containers[0].Image != "busybox:1" || all[0].Labels["a"] != "" {
		t.Errorf("the node has %+v, want the Pod of the file alone, as it was", all)
	}
}

// row: STA-08
// row: STA-09
func TestOnlyChangedContentRestarts(t *testing.T) {
	t.Parallel()
	r, dir := live(t, nil)
	put(t, dir, "a.yaml", manifest("a", ""))
	put(t, dir, "b.yaml", manifest("b", ""))
	put(t, dir, "c.yaml", manifest("c", ""))
	r.begin()
	a, b, c := r.running("a-n1"), r.running("b-n1"), r.running("c-n1")
	r.eventually("mirror", func() bool { return r.get("a-n1") != nil })
	mirror := r.get("a-n1").UID
	put(t, dir, "b.yaml", manifest("b", "# a comment is no content\n"))
	put(t, dir, "a.yaml", manifest("a", "    env: [{name: NEW, value: x}]\n"))
	r.eventually("another container of a", func() bool { id := r.container("a-n1"); return id != "" && id != a })
	r.eventually("another mirror of a",
		func() bool { p := r.get("a-n1"); return p != nil && p.UID != mirror && p.Spec.Containers[0].Env != nil })
	if now := r.container("b-n1"); now != b {
		t.Errorf("b: %s became %s", b, now)
	}
	if n := r.events.count("Stopping container c"); n != 1 {
		t.Errorf("%d stops", n)
	}
	// What is not of its containers is content too.
	put(t, dir, "c.yaml", strings.Replace(manifest("c", ""), "{name: c}", "{name: c, labels: {x: new}}", 1))
	r.eventually("another container of c", func() bool { id := r.container("c-n1"); return id != "" && id != c })
	r.eventually("a mirror of c with the label",
		func() bool { p := r.get("c-n1"); return p != nil && p.Labels["x"] == "new" })
	if now := r.container("b-n1"); now != b {
		t.Errorf("b: %s became %s", b, now)
	}
}

// A file that is touched, or read while it is being written again, is the same Pod.
//
// row: STA-08
func TestARewrittenFileKeepsItsContainer(t *testing.T) {
	t.Parallel()
	r, dir := live(t, func(o *kubelet.Options) {
		o.Config.FileCheckFrequency.Duration = time.Hour // a file that stays bad that long has no Pod any more
	})
	put(t, dir, "a.yaml", manifest("a", ""))
	r.begin()
	a := r.running("a-n1")
	put(t, dir, "a.yaml", "")
	r.eventually("word of the empty file", func() bool { return strings.Contains(r.facts.text(), "a.yaml: ") })
	put(t, dir, "a.yaml", manifest("a", ""))
	if err := os.Chtimes(filepath.Join(dir, "a.yaml"), time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "b.yaml", manifest("b", "")) // when it runs, the directory has been read again
	r.running("b-n1")
	if now := r.container("a-n1"); now != a {
		t.Errorf("%s became %s", a, now)
	}
	if n := r.events.count("Stopping container c"); n != 0 {
		t.Errorf("%d stops, want none", n)
	}
}

// row: KSL-14
func TestInvalidManifestIsIsolated(t *testing.T) {
	t.Parallel()
	r, dir := live(t, func(o *kubelet.Options) {
		o.Config.FileCheckFrequency.Duration = 100 * time.Millisecond
	})
	put(t, dir, "a.yaml", manifest("a", ""))
	put(t, dir, "b.yaml", manifest("b", "  serviceAccountName: sa\n"))
	put(t, dir, "c.yaml~", manifest("c", ""))
	r.begin()
	r.running("a-n1")
	r.eventually("word of the bad file", func() bool {
		return strings.Contains(r.facts.text(), "b.yaml: static pods may not reference serviceaccounts")
	})
	put(t, dir, "b.yaml", manifest("b", ""))
	r.running("b-n1")
	put(t, dir, "b.yaml", "spec: [")
	r.eventually("the end of b, whose file stays bad",
		func() bool { _, ok := r.k.PodByName("default", "b-n1"); return !ok })
	if len(r.k.Pods()) != 1 {
		t.Errorf("%d Pods", len(r.k.Pods()))
	}
}

// row: STA-02
func TestStaticContainerIsRestarted(t *testing.T) {
	t.Parallel()
	r, dir := live(t, nil)
	put(t, dir, "a.yaml", strings.Replace(manifest("a", ""), runs, "exit 1", 1))
	r.begin()
	r.eventually("the Pod", func() bool { _, ok := r.k.PodByName("default", "a-n1"); return ok })
	first, _ := r.k.PodByName("default", "a-n1")
	r.eventually("a restart", func() bool { return r.events.count("Started: ") >= 2 })
	r.eventually("a status that counts it", func() bool { // the event comes first
		p, ok := r.k.PodByName("default", "a-n1")
		return ok && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount >= 1
	})
	if now, _ := r.k.PodByName("default", "a-n1"); now.UID != first.UID || r.fake.Count("RunPodSandbox") != 1 {
		t.Errorf("uid %s became %s, %d sandboxes were made, want the same Pod in its sandbox", first.UID, now.UID,
			r.fake.Count("RunPodSandbox"))
	}
	// One whose process is killed, too.
	put(t, dir, "b.yaml", manifest("b", ""))
	id := r.running("b-n1")
	was, _ := r.k.PodByName("default", "b-n1")
	r.kill("b-n1")
	r.eventually("another container of b", func() bool { now := r.container("b-n1"); return now != "" && now != id })
	if now, _ := r.k.PodByName("default", "b-n1"); now.UID != was.UID {
		t.Errorf("uid %s became %s", was.UID, now.UID)
	}
}

// row: KSL-15
// row: STA-03
func TestPodsOfAURL(t *testing.T) {
	t.Parallel()
	answer, asked := atomic.Value{}, atomic.Int64{}
	answer.Store(manifest("one", ""))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked.Add(1)
		if q.Header.Get("X-Key") != "k" {
			http.Error(w, "who are you", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(answer.Load().(string)))
	}))
	defer s.Close()
	r, _ := live(t, func(o *kubelet.Options) {
		o.Config.StaticPodPath = ""
		o.Config.StaticPodURL, o.Config.StaticPodURLHeader = s.URL, map[string][]string{"X-Key": {"k"}}
		o.Config.HTTPCheckFrequency.Duration = 50 * time.Millisecond
	})
	r.begin()
	one := r.running("one-n1")
	if p, _ := r.k.PodByName("default", "one-n1"); p.Annotations["kubernetes.io/config.source"] != "http" ||
		len(p.Spec.Tolerations) != 0 {
		t.Errorf("got %+v, want Annotations[kubernetes.io/config.source] http and no Tolerations", p)
	}
	r.eventually("its mirror", func() bool { return r.get("one-n1") != nil })
	indent := func(m string) string { return "- " + strings.ReplaceAll(strings.TrimSpace(m), "\n", "\n  ") + "\n" }
	answer.Store("apiVersion: v1\nkind: PodList\nitems:\n" + indent(manifest("one", "")) + indent(manifest("two", "")))
	r.running("two-n1")
	if now := r.container("one-n1"); now != one {
		t.Errorf("%s became %s", one, now)
	}
	asJSON, err := yaml.YAMLToJSON([]byte("apiVersion: v1\nkind: PodList\nitems:\n" + indent(manifest("one", "")) +
		indent(manifest("two", "")) + indent(manifest("three", ""))))
	if err != nil {
		t.Fatal(err)
	}
	answer.Store(string(asJSON))
	r.running("three-n1")
	answer.Store("not a Pod")
	before := asked.Load()
	r.eventually("more questions", func() bool { return asked.Load() > before+2 })
	if r.container("one-n1") == "" || r.container("two-n1") == "" {
		t.Errorf("got the containers %q and %q after a bad answer, want both to run", r.container("one-n1"),
			r.container("two-n1"))
	}
	answer.Store("apiVersion: v1\nkind: PodList\nitems: []\n")
	r.eventually("the end of all", func() bool { return len(r.k.Pods()) == 0 })
}

// row: KSL-14
func TestStandaloneKubelet(t *testing.T) {
	t.Parallel()
	r, dir := live(t, func(o *kubelet.Options) { o.StaticPods.Standalone = true })
	r.api.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		t.Errorf("asked for %s %s", a.GetVerb(), a.GetResource().Resource)
		return true, nil, errors.New("nobody there")
	})
	put(t, dir, "a.yaml", manifest("a", ""))
	r.begin()
	id := r.running("a-n1")
	r.stop()
	r.begin()
	r.eventually("the same container", func() bool { return r.container("a-n1") == id })
}

// row: STA-01
// row: KSL-08
func TestAPIServerAwayAtStart(t *testing.T) {
	t.Parallel()
	away := atomic.Bool{}
	r, dir := live(t, nil)
	r.api.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return away.Load(), nil, errors.New("no connection")
	})
	r.api.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		return away.Load(), nil, errors.New("no connection")
	})
	put(t, dir, "a.yaml", manifest("a", ""))
	r.begin()
	if _, err := r.api.CoreV1().Pods("default").Create(context.Background(), pod("web", scriptContainer("app", runs)),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	static, web := r.running("a-n1"), r.running("web")
	r.stop()
	away.Store(true)
	stops := r.fake.Count("StopContainer") + r.fake.Count("StopPodSandbox")
	r.begin()
	put(t, dir, "b.yaml", manifest("b", ""))
	put(t, dir, "c.json",
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c"},"spec":{"terminationGracePeriodSeconds":1,`+
			`"containers":[{"name":"c","image":"busybox:1","command":["sh","-c","`+runs+`"]}]}}`)
	r.running("b-n1")
	r.running("c-n1")
	if now := r.container("a-n1"); now != static {
		t.Errorf("%s became %s", static, now)
	}
	if n := r.fake.Count("StopContainer") + r.fake.Count("StopPodSandbox"); n != stops {
		t.Errorf("%d stops while the API server is away", n-stops)
	}
	away.Store(false)
	r.eventually("web again", func() bool { return r.container("web") == web })
	r.eventually("the mirror of b",
		func() bool { p := r.get("b-n1"); return p != nil && p.Status.Phase == v1.PodRunning })
	if n := r.fake.Count("StopContainer") + r.fake.Count("StopPodSandbox"); n != stops {
		t.Errorf("%d stops", n-stops)
	}
}

// row: KSL-19
func TestStaticPodIgnoresAPodOfItsName(t *testing.T) {
	t.Parallel()
	r, dir := live(t, nil)
	put(t, dir, "a.yaml", manifest("a", ""))
	r.begin()
	id := r.running("a-n1")
	r.eventually("mirror", func() bool { return r.get("a-n1") != nil })
	other := pod("a-n1", scriptContainer("other", runs))
	other.UID = "another"
	if err := r.api.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), other, "default"); err != nil {
		t.Fatal(err)
	}
	r.eventually("word of it",
		func() bool { return strings.Contains(r.facts.text(), "an older Pod of this name to leave the node") })
	if now := r.container("a-n1"); now != id {
		t.Errorf("%s became %s", id, now)
	}
	starts := r.fake.Count("StartContainer") // what is said of the other is nothing to the one that runs
	changed := other.DeepCopy()
	changed.DeletionTimestamp, changed.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(1))
	if err := r.api.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), changed, "default"); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "later.yaml", manifest("later", ""))
	r.running("later-n1")
	if now := r.container("a-n1"); now != id || r.fake.Count("StartContainer") != starts+1 ||
		strings.Contains(r.fake.Dump(), "other") {
		t.Errorf("%s became %s after %d more starts:\n%s", id, now, r.fake.Count("StartContainer")-starts,
			r.fake.Dump())
	}
}

// An API server that refuses the mirror of a static Pod, as an admission webhook has it do, leaves
// the Pod alone: it runs, is probed and restarted, and stops when its file goes. Once the mirror is
// let in, it is there with the Pod's status.
//
// row: STA-01
// row: STA-06
func TestMirrorIsRefused(t *testing.T) {
	t.Parallel()
	refuse := atomic.Bool{}
	refuse.Store(true)
	r, dir := live(t, nil)
	r.api.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := a.(clienttesting.CreateAction).GetObject().(*v1.Pod).Name
		return refuse.Load(), nil, apierrors.NewForbidden(v1.Resource("pods"), name, errors.New("denied by a webhook"))
	})
	probe := "    livenessProbe: {exec: {command: [sh, -c, \"exit 1\"]}, periodSeconds: 1, failureThreshold: 1}\n"
	put(t, dir, "a.yaml", manifest("a", ""))
	put(t, dir, "b.yaml", manifest("b", probe))
	r.begin()
	id, first := r.running("a-n1"), r.running("b-n1")
	r.eventually("a restart by the probe", func() bool {
		now := r.container("b-n1")
		return now != "" && now != first
	})
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	r.eventually("the end of b", func() bool { return r.container("b-n1") == "" && len(r.k.Pods()) == 1 })
	if r.get("a-n1") != nil || r.get("b-n1") != nil {
		t.Errorf("got the mirrors %v and %v, want none: the API refuses them", r.get("a-n1"), r.get("b-n1"))
	}
	refuse.Store(false)
	r.eventually("the mirror of a",
		func() bool { p := r.get("a-n1"); return p != nil && p.Status.Phase == v1.PodRunning })
	if now := r.container("a-n1"); now != id {
		t.Errorf("%s became %s when its mirror came", id, now)
	}
	if r.get("b-n1") != nil {
		t.Error("the API has the mirror of a Pod that is gone")
	}
}
