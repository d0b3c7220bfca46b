package kubelet_test

import (
	"flag"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/kubelet"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/linux/mount"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected transcripts in testdata")

// write adds a line of another hand to the journal, so that one list holds the order of all.
func (f *facts) write(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, line)
}

// recordingCgroups is a cgroup tree that records what is done to Pods' cgroups.
type recordingCgroups struct {
	*groups
	to *facts
}

func (g recordingCgroups) Ensure(p string, v kubeletresource.Values) error {
	if strings.HasPrefix(path.Base(p), "pod") {
		g.to.write("kernel: cgroup " + p + " made")
	}
	return g.groups.Ensure(p, v)
}

func (g recordingCgroups) Remove(p string) error {
	g.to.write("kernel: cgroup " + p + " removed")
	return g.groups.Remove(p)
}

// recordingMounts are mounts in memory that say what is mounted and unmounted.
type recordingMounts struct {
	mount.DirMounter
	to      *facts
	blocked chan struct{} // unmounting waits until it is closed; nil: it does not
	slow    bool          // mounting takes longer than all that goes on beside it
	has     map[string]bool
}

func (m *recordingMounts) Tmpfs(dir string, size int64, mode fs.FileMode) error {
	if m.slow {
		time.Sleep(time.Nanosecond) // virtual: it passes when everybody else waits
	}
	m.to.write("kernel: mounted tmpfs on " + filepath.Base(dir))
	m.has[dir] = true
	return m.DirMounter.Tmpfs(dir, size, mode)
}

func (m *recordingMounts) Unmount(dir string) error {
	if m.has[dir] {
		if m.blocked != nil {
			<-m.blocked
		}
		m.to.write("kernel: unmounted " + filepath.Base(dir))
		delete(m.has, dir)
	}
	return nil
}

func (m *recordingMounts) IsMountPoint(dir string) (bool, error) { return m.has[dir], nil }

func (m *recordingMounts) MountPoints(dir string) (out []string, _ error) {
	for at := range m.has {
		if strings.HasPrefix(at, dir) {
			out = append(out, at)
		}
	}
	slices.Sort(out)
	return out, nil
}

// watched makes a rig whose kernel and API say what is done to them.
func (r *rig) watched() *recordingMounts {
	r.stop()
	m := &recordingMounts{to: r.facts, has: map[string]bool{}}
	r.with = func(o *kubelet.Options) {
		o.Dependencies.Mounts, o.Dependencies.Cgroups = m, recordingCgroups{r.groups, r.facts}
	}
	r.api.PrependReactor("*", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		switch a := a.(type) {
		case clienttesting.PatchAction:
			phase := regexp.MustCompile(`"phase":"(\w+)"`).FindStringSubmatch(string(a.GetPatch()))
			r.facts.write("API: status patched" + strings.Join(append([]string{""}, phase[min(1, len(phase)):]...),
				" "))
		case clienttesting.DeleteActionImpl:
			uid := "none"
			if p := a.DeleteOptions.Preconditions; p != nil && p.UID != nil {
				uid = string(*p.UID)
			}
			if g := a.DeleteOptions.GracePeriodSeconds; g == nil || *g != 0 {
				uid += ", with grace"
			}
			r.facts.write("API: object deleted, uid " + uid)
		}
		return false, nil, nil
	})
	r.start()
	return m
}

var (
	ids   = regexp.MustCompile(`[0-9a-f]{64}|[0-9a-f]{12,13}`)
	times = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z?`)
)

// sandboxLast puts the first sandbox behind the volumes that are made ready beside it, up to the
// next plan, so that a transcript has one order of what has none.
func sandboxLast(lines []string) []string {
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "Called: CRI RunPodSandbox") })
	if at < 0 {
		return lines
	}
	n := slices.IndexFunc(lines[at:], func(l string) bool { return strings.Contains(l, "Planned: ") })
	if n < 0 {
		return lines
	}
	out := slices.Delete(slices.Clone(lines), at, at+1)
	return slices.Insert(out, at+n-1, lines[at])
}

// transcript is the journal of a test, compared with its file in testdata.
func (r *rig) transcript(file string) {
	r.t.Helper()
	// what is seen of the runtime and written to the API has its own pace; its order is looked at
	// by itself
	var kept []string
	for _, l := range sandboxLast(strings.Split(r.facts.text(), "\n")) {
		if !strings.Contains(l, " Called: CRI List took") && !strings.HasPrefix(l, "API: status") &&
			!slices.ContainsFunc([]string{"StatusWritten", "ConditionChanged", "PhaseChanged", "ContainerExited"},
				func(k string) bool { return strings.Contains(l, " "+k+": ") }) {
			kept = append(kept, l)
		}
	}
	text := strings.ReplaceAll(strings.Join(kept, "\n"), r.root, "ROOT")
	names := map[string]string{}
	text = ids.ReplaceAllStringFunc(text, func(id string) string {
		if names[id] == "" {
			names[id] = "id-" + string(rune('a'+len(names)))
		}
		return names[id]
	})
	text = times.ReplaceAllString(text, "TIME") + "\n"
	name := filepath.Join("testdata", file)
	if *rewrite {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		r.t.Fatal(err)
	}
	if text != string(want) {
		r.t.Errorf("go test -rewrite and look at the difference to %s; got:\n%s", name, text)
	}
}

// inOrder checks that lines with these parts follow one another.
func inOrder(t *testing.T, lines []string, parts ...string) {
	t.Helper()
	at := 0
	for _, part := range parts {
		i := slices.IndexFunc(lines[at:], func(l string) bool { return strings.Contains(l, part) })
		if i < 0 {
			t.Fatalf("%q is not there, or too early", part)
		}
		at += i + 1
	}
}

func mem(c v1.Container, size string) v1.Container {
	c.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(size)}
	return c
}

// The whole life of a Pod with an init container, a memory volume, a probe and a preStop hook: what
// its worker plans and does to kernel, runtime and API, in order.
//
// row: PWK-06
// row: PWK-11
// row: PWK-12
// row: PWK-16
// row: PWK-24
// row: PWK-27
// row: PWK-28
// row: PWK-29
// row: PWK-32
func TestLifeOfAPod(t *testing.T) {
	for name, slow := range map[string]bool{"volumes ready before the sandbox": false,
		"sandbox before the volumes are ready": true} {
		t.Run(name, func(t *testing.T) { runTest(t, func(r *rig) { r.watched().slow = slow; r.life() }) })
	}
}

// life is the scenario of TestLifeOfAPod. Sandbox and volumes are made side by side once the Pod's
// cgroup is there; no container is made before both are.
func (r *rig) life() {
	t := r.t
	a := r.serveProbes()
	r.fake.On(crifake.Match{Container: "setup"}, crifake.Script{Sh: "exit 0"})
	app := mem(scriptContainer("app", runs), "16Mi")
	app.ReadinessProbe = probeSpec("ready", 5, 3)
	app.ReadinessProbe.InitialDelaySeconds = 2
	app.VolumeMounts = []v1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	app.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 3}}}
	p := pod("web", app)
	p.Spec.InitContainers = []v1.Container{scriptContainer("setup", "exit 0")}
	p.Spec.Volumes = []v1.Volume{
		{Name: "scratch",
			VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}}}
	r.create(p)
	r.advance(12 * time.Second)
	if readyIs(r.phase("web", v1.PodRunning)) != v1.ConditionTrue || a.count()["ready"] == 0 {
		t.Fatalf("got %v, want readyIs ConditionTrue and a.count()[ready] other than 0", r.facts.text())
	}
	if taken := r.fake.Addresses(); len(taken) != 1 || taken[0].String() != r.get("web").Status.PodIP {
		t.Errorf("addresses %v are taken, want that of the Pod alone", taken)
	}
	r.facts.write("-- deleted")
	r.delete("web", 30)
	r.advance(2 * time.Second)
	asked := a.count()["ready"]
	r.advance(time.Minute)
	if n := a.count()["ready"] - asked; n > 1 {
		t.Errorf("asked %d times after its container ended", n)
	}
	r.expectPodGone("web")
	if taken := r.fake.Addresses(); len(taken) != 0 {
		t.Errorf("addresses %v are still taken after the Pod has gone", taken)
	}
	r.transcript("life.txt")
	lines := strings.Split(r.facts.text(), "\n")
	inOrder(t, lines, "kernel: cgroup /kubepods/burstable/poduid-web made", "RunPodSandbox", "CreateContainer setup")
	inOrder(t, lines,
		"kernel: cgroup /kubepods/burstable/poduid-web made", "kernel: mounted tmpfs on scratch",
		"CreateContainer setup", "StartContainer", "StartContainer", "readiness probe of app", "-- deleted",
		"preStop", "StopContainer", "StopPodSandbox", "kernel: unmounted scratch",
		"kernel: cgroup /kubepods/burstable/poduid-web removed", "API: object deleted, uid uid-web",
	)
	inOrder(t, lines, "API: status patched Running", "-- deleted", "StopPodSandbox", "API: status patched Succeeded",
		"API: object deleted, uid uid-web")
}

// row: PWK-30
// row: PWK-31
// row: CSI-10
//
// An unmount that hangs keeps its Pod, and only that, Terminating; it is named with its path. When
// it comes back the rest follows.
//
// row: PWK-28
func TestUnmountThatHangs(t *testing.T) {
	runTest(t, func(r *rig) {
		m := r.watched()
		m.blocked = make(chan struct{})
		unblock := sync.OnceFunc(func() { close(m.blocked) })
		defer unblock()
		p := pod("held", scriptContainer("app", runs))
		p.Spec.Volumes = []v1.Volume{
			{Name: "scratch",
				VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
		r.create(p)
		r.create(pod("free", scriptContainer("app", runs)))
		r.delete("held", 5)
		r.delete("free", 5)
		r.advance(time.Minute)
		r.assertRemoved("free")
		p = r.get("held")
		if p == nil || p.DeletionTimestamp == nil || p.Status.ContainerStatuses[0].State.Terminated == nil {
			t.Fatalf("got %+v, want set Terminated", p)
		}
		if got := stuckIn(r.k); !strings.Contains(got, "held SyncTerminatedPod: ") || strings.Contains(got, "free") {
			t.Errorf("stuck: %q", got)
		}
		r.create(pod("later", scriptContainer("app", runs)))
		r.phase("later", v1.PodRunning)
		r.delete("later", 1)
		r.advance(5 * time.Second)
		unblock()
		r.advance(time.Minute)
		r.expectPodGone("held")
	})
}

// Directories are there and pull secrets have been read before the runtime is asked for the first
// time.
//
// row: PWK-13
func TestDirectoriesAndPullSecretsComeFirst(t *testing.T) {
	runTest(t, func(r *rig) {
		r.fake.SetRegistry([]crifake.Image{{Names: []string{"registry.example/app:1"}, Auth: "u:p"}})
		secret := &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pull"}, Type: v1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{
				v1.DockerConfigJsonKey: []byte(`{"auths":{"registry.example":{"username":"u","password":"p"}}}`)},
		}
		if err := r.api.Tracker().Add(secret); err != nil {
			t.Fatal(err)
		}
		r.watched()
		c := scriptContainer("app", runs)
		c.Image, c.ImagePullPolicy = "registry.example/app:1", v1.PullAlways
		p := pod("web", c)
		p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "pull"}}
		if err := r.fake.FaultPod("web", "RunPodSandbox", "hang"); err != nil {
			t.Fatal(err)
		}
		r.create(p)
		for _, dir := range []string{"volumes", "plugins", "containers"} {
			if _, err := os.Stat(filepath.Join(r.root, "kubelet", "pods", "uid-web", dir)); err != nil {
				t.Errorf("before the sandbox: %v", err)
			}
		}
		if _, err := os.Stat(filepath.Join(r.root, "logs", "default_web_uid-web")); err != nil {
			t.Errorf("before the sandbox: %v", err)
		}
		if err := r.fake.FaultPod("web", "RunPodSandbox", ""); err != nil {
			t.Fatal(err)
		}
		r.advance(5 * time.Minute)
		r.phase("web", v1.PodRunning)
	})
}
