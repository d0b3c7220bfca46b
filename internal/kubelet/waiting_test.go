package kubelet_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/kubelet"
)

// saysWaiting fails unless the Pod's app container waits for that reason.
func (r *rig) saysWaiting(pod, want string) {
	r.t.Helper()
	st := r.get(pod).Status.ContainerStatuses
	if len(st) != 1 || st[0].State.Waiting == nil || st[0].State.Waiting.Reason != want {
		r.t.Errorf("%s: got %+v, want %s", pod, st, want)
	}
}

// row: PST-27
func TestReasonsOfWaiting(t *testing.T) {
	runTest(t, func(r *rig) {
		inits, image := pod("inits", scriptContainer("app", runs)), pod("image", scriptContainer("app", runs))
		inits.Spec.InitContainers = []v1.Container{scriptContainer("first", "sleep 1000")}
		image.Spec.Containers[0].Image = "nowhere:1"
		r.create(inits)
		r.saysWaiting("inits", "PodInitializing")
		r.create(image)
		r.saysWaiting("image", "ErrImagePull")
		r.advance(20 * time.Second) // the first back-off, told when the second pull has failed
		r.saysWaiting("image", "ImagePullBackOff")
		r.create(pod("crashes", scriptContainer("app", "exit 1")))
		r.advance(9 * time.Second)
		r.saysWaiting("crashes", "CrashLoopBackOff")
		if err := r.fake.Fault("RunPodSandbox", "hang"); err != nil {
			t.Fatal(err)
		}
		r.create(pod("creating", scriptContainer("app", runs)))
		r.saysWaiting("creating", "ContainerCreating")
	})
}

// A missing pull secret is reported when a pull fails, not of a Pod whose images are there.
func TestAMissingPullSecretIsReportedWhenAPullFails(t *testing.T) {
	runTest(t, func(r *rig) {
		secrets := []v1.LocalObjectReference{{Name: "nope"}, {Name: "nor-this"}}
		runs, fails := pod("runs", scriptContainer("app", runs)), pod("fails", scriptContainer("app", runs))
		runs.Spec.ImagePullSecrets, fails.Spec.ImagePullSecrets = secrets, secrets
		fails.Spec.Containers[0].Image = "nowhere:1"
		r.create(runs)
		if got := r.events.count("Unable to retrieve"); got != 0 {
			t.Errorf("the image is there: got %d events, want none: %v", got, r.events.text())
		}
		r.create(fails)
		if got := r.events.count("Unable to retrieve some image pull secrets (nope, nor-this); attempting"); got != 1 {
			t.Errorf("the pull failed: got %d events, want 1: %v", got, r.events.text())
		}
	})
}

// While an image is pulled everybody can see that the Pod's network is there: it was told before
// the pull began.
//
// row: PST-18
func TestNetworkIsReportedBeforeImagesArePulled(t *testing.T) {
	runTest(t, func(r *rig) {
		r.fake.SetRegistry([]crifake.Image{{Names: []string{"slow:1"}, Pull: time.Hour}})
		c := scriptContainer("app", runs)
		c.Image = "slow:1"
		r.create(pod("p", c))
		if got := conditions(r.phase("p", v1.PodPending)); !strings.Contains(got, "PodReadyToStartContainers=True") {
			t.Errorf("while the image is pulled: got %s, want PodReadyToStartContainers=True\n%s", got, r.facts.text())
		}
		facts := r.facts.text()
		told, pull := strings.Index(facts, "PodReadyToStartContainers=True"), strings.Index(facts, "Pulling")
		if told < 0 || pull < told {
			t.Errorf("the condition comes at %d, the pull at %d in\n%s", told, pull, facts)
		}
		if n := r.fake.Count("CreateContainer"); n != 0 {
			t.Errorf("%d containers made before the image was there", n)
		}
		r.faultOf("present", "CreateContainer", "hang") // and so before a container of an image that is there
		r.create(pod("present", scriptContainer("app", runs)))
		if got := conditions(r.phase("present", v1.PodPending)); !strings.Contains(got,
			"PodReadyToStartContainers=True") {
			t.Errorf("while the container is made: got %s, want PodReadyToStartContainers=True", got)
		}
		r.faultOf("present", "CreateContainer", "")
	})
}

// As many images are pulled side by side as the configuration says, one if it says nothing.
//
// row: CRI-25
func TestPullsSideBySide(t *testing.T) {
	for _, c := range []struct {
		serialize *bool
		most      *int32
		want      int // of three, after the time that one takes
	}{{nil, nil, 1}, {new(true), nil, 1}, {new(false), nil, 3}, {new(false), new(int32(2)), 2}} {
		runTest(t, func(r *rig) {
			r.stop()
			r.with = func(o *kubelet.Options) {
				o.Config.SerializeImagePulls, o.Config.MaxParallelImagePulls = c.serialize, c.most
			}
			r.start()
			var images []crifake.Image
			for _, name := range []string{"a", "b", "c"} {
				images = append(images, crifake.Image{Names: []string{name + ":1"}, Pull: 10 * time.Second})
			}
			r.fake.SetRegistry(images)
			for _, name := range []string{"a", "b", "c"} {
				p := pod(name, scriptContainer("app", runs))
				p.Spec.Containers[0].Image = name + ":1"
				r.create(p)
			}
			r.advance(12 * time.Second)
			got := 0
			for _, name := range []string{"a", "b", "c"} {
				if r.get(name).Status.Phase == v1.PodRunning {
					got++
				}
			}
			if got != c.want {
				t.Errorf("serializeImagePulls %v, maxParallelImagePulls %v: %d of three Pods run, want %d", c.serialize,
					c.most, got, c.want)
			}
			r.advance(time.Minute)
		})
	}
}

// App containers are started together: one that never becomes ready, or never has started for its
// startup probe, holds the others up no longer than its making takes.
//
// row: ISE-03
func TestAppContainersStartTogether(t *testing.T) {
	for name, set := range map[string]func(*v1.Container, *v1.Probe){
		"never started": func(c *v1.Container, p *v1.Probe) { c.StartupProbe = p },
		"never ready":   func(c *v1.Container, p *v1.Probe) { c.ReadinessProbe = p },
	} {
		runTest(t, func(r *rig) {
			r.serveProbes("sick")
			slow := scriptContainer("slow", runs)
			set(&slow, probeSpec("sick", 10, 100))
			r.create(pod("p", slow, scriptContainer("quick", runs)))
			if got := started(r); got != "slow quick" {
				t.Errorf("%s: got %q started, want slow and quick", name, got)
			}
		})
	}
}

// The deadline counts from the Pod's start, also while its init containers run.
//
// row: ISE-13
func TestActiveDeadlineCoversInitContainers(t *testing.T) {
	runTest(t, func(r *rig) {
		p := pod("p", scriptContainer("app", runs))
		p.Spec.InitContainers = []v1.Container{scriptContainer("first", "sleep 4"),
			scriptContainer("second", "trap 'exit 0' TERM; while true; do sleep 1; done")}
		p.Spec.ActiveDeadlineSeconds = new(int64(6))
		r.create(p)
		r.advance(5 * time.Second)
		r.phase("p", v1.PodPending)
		r.advance(3 * time.Second)
		if got := r.phase("p", v1.PodFailed); got.Status.Reason != "DeadlineExceeded" {
			t.Errorf("got reason %q, want DeadlineExceeded", got.Status.Reason)
		}
		if got := started(r); got != "first second" {
			t.Errorf("got %q started, want the init containers only", got)
		}
	})
}
