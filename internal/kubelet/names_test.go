package kubelet_test

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// forceDelete deletes a Pod from the API at once.
func (r *rig) forceDelete(name string) {
	r.t.Helper()
	if err := r.api.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// createNamed makes a Pod that has the name of one before it.
func (r *rig) createNamed(uid string, p *v1.Pod) {
	r.t.Helper()
	p.UID = types.UID(uid)
	if _, err := r.api.CoreV1().Pods("default").Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// assertOneSandbox checks that never two sandboxes of one name were ready.
func (r *rig) assertOneSandbox() {
	r.t.Helper()
	for _, duplicates := range r.fake.DuplicateSandboxes() {
		r.t.Errorf("got %v, want one sandbox for each Pod and attempt", duplicates)
	}
	if r.t.Failed() {
		r.t.Log(r.facts.text() + "\n" + r.fake.Dump())
	}
}

// A Pod is deleted while its sandbox is being made, and the runtime makes it nevertheless: the next
// Pod of that name waits until that is over.
func TestASandboxThatComesAfterItsPodWasDeleted(t *testing.T) {
	for _, late := range []string{"1ms", "500ms", "1900ms", "3s", "9s"} {
		t.Run(late, func(t *testing.T) {
			runTest(t, func(r *rig) {
				r.advance(time.Second)
				r.faultOf("web", "RunPodSandbox", "1*late("+late+")")
				first := pod("web", scriptContainer("app", runs))
				r.createNamed("uid-first", first)
				time.Sleep(13 * time.Millisecond)
				r.forceDelete("web")
				r.createNamed("uid-second", pod("web", scriptContainer("app", runs)))
				r.advance(30 * time.Second)
				if p := r.phase("web", v1.PodRunning); p.UID != "uid-second" {
					t.Errorf("%s runs, want uid-second", p.UID)
				}
				if d := r.fake.Dump(); strings.Count(d, "pod default/web") != 1 {
					t.Errorf("the runtime has\n%s", d)
				}
				r.assertOneSandbox()
			})
		})
	}
}

// While no kubelet is there a Pod is deleted and made again: the next kubelet ends the one before
// it starts the other.
//
// row: KSL-12
func TestAPodMadeAgainWhileTheKubeletWasAway(t *testing.T) {
	runTest(t, func(r *rig) {
		r.advance(time.Second)
		r.createNamed("uid-first", pod("web", scriptContainer("app", "trap '' TERM; while true; do sleep 1; done")))
		r.advance(5 * time.Second)
		r.phase("web", v1.PodRunning)
		r.stop()
		r.forceDelete("web")
		r.createNamed("uid-second", pod("web", scriptContainer("app", runs)))
		r.start()
		r.advance(time.Minute)
		if p := r.phase("web", v1.PodRunning); p.UID != "uid-second" {
			t.Errorf("%s runs, want uid-second", p.UID)
		}
		r.assertOneSandbox()
	})
}

// crash ends the kubelet as SIGKILL does: what it asked the runtime for breaks off.
func (r *rig) crash() {
	r.t.Helper()
	r.cri.Close()
	r.stop()
}

// The same when the kubelet dies while the sandbox is being made, and another Pod of the name is
// there when the next kubelet comes.
func TestASandboxThatComesAfterItsKubeletDied(t *testing.T) {
	for _, late := range []string{"1s", "4s", "9s"} {
		t.Run(late, func(t *testing.T) {
			runTest(t, func(r *rig) {
				r.advance(time.Second)
				r.faultOf("web", "RunPodSandbox", "1*late("+late+")")
				r.createNamed("uid-first", pod("web", scriptContainer("app", runs)))
				r.advance(13 * time.Millisecond)
				r.crash()
				r.forceDelete("web")
				r.createNamed("uid-second", pod("web", scriptContainer("app", runs)))
				r.start()
				r.advance(30 * time.Second)
				if p := r.phase("web", v1.PodRunning); p.UID != "uid-second" {
					t.Errorf("%s runs, want uid-second", p.UID)
				}
				r.assertOneSandbox()
				if d := r.fake.Dump(); strings.Count(d, "pod default/web") != 1 {
					t.Errorf("the runtime has\n%s", d)
				}
			})
		})
	}
}

// The kubelet dies twice while one sandbox is being made, and the second one has been there for
// long enough to clear away what no Pod owns: the third still keeps the name for what may come.
func TestASandboxThatComesAfterTwoKubeletsDied(t *testing.T) {
	for _, late := range []string{"4s", "9s"} {
		t.Run(late, func(t *testing.T) {
			runTest(t, func(r *rig) {
				r.advance(time.Second)
				r.faultOf("web", "RunPodSandbox", "1*late("+late+")")
				r.createNamed("uid-first", pod("web", scriptContainer("app", runs)))
				r.advance(13 * time.Millisecond)
				r.crash()
				r.forceDelete("web")
				r.start()
				r.advance(2500 * time.Millisecond)
				r.crash()
				r.createNamed("uid-second", pod("web", scriptContainer("app", runs)))
				r.start()
				r.advance(30 * time.Second)
				if p := r.phase("web", v1.PodRunning); p.UID != "uid-second" {
					t.Errorf("got %s running, want uid-second", p.UID)
				}
				r.assertOneSandbox()
				if d := r.fake.Dump(); strings.Count(d, "pod default/web") != 1 {
					t.Errorf("got\n%s\nin the runtime, want one Pod", d)
				}
				if left, _ := filepath.Glob(filepath.Join(r.root, "logs", "*_uid-first")); len(left) != 0 {
					t.Errorf("got logs %v, want none of a Pod that nobody has", left)
				}
			})
		})
	}
}

// A sandbox that comes when nobody reckons with it any more, beside a Pod of its name that runs, is
// gone within two seconds; nothing ever runs in it, and the other Pod goes on.
func TestASandboxThatComesTooLate(t *testing.T) {
	for name, dies := range map[string]bool{"its kubelet died": true, "its kubelet gave it up": false} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(r *rig) {
				r.advance(time.Second)
				r.faultOf("web", "RunPodSandbox", "1*late(20s)")
				r.createNamed("uid-first", pod("web", scriptContainer("app", runs)))
				r.advance(13 * time.Millisecond)
				if dies {
					r.crash()
				}
				r.forceDelete("web")
				if dies {
					r.start()
				}
				r.createNamed("uid-second", pod("web", scriptContainer("app", runs)))
				r.advance(19 * time.Second)
				before := r.phase("web", v1.PodRunning).Status.ContainerStatuses[0].ContainerID
				r.advance(900 * time.Millisecond) // it comes within the next 100 ms
				if n := r.fake.Count("CreateContainer"); n != 1 {
					t.Fatalf("got %d containers, want that of the second Pod only", n)
				}
				r.advance(2100 * time.Millisecond)
				if d := r.fake.Dump(); len(r.fake.DuplicateSandboxes()) != 1 ||
					strings.Count(d, "pod default/web") != 1 {
					t.Errorf("got duplicates %v and\n%s\nin the runtime, want one that came, and is gone",
						r.fake.DuplicateSandboxes(), d)
				}
				if n := r.fake.Count("CreateContainer"); n != 1 {
					t.Errorf("got %d containers, want none in the sandbox that came", n)
				}
				p := r.phase("web", v1.PodRunning)
				if got := p.Status.ContainerStatuses[0].ContainerID; p.UID != "uid-second" || got != before {
					t.Errorf("got container %s of %s, want %s of uid-second", got, p.UID, before)
				}
			})
		})
	}
}

// A runtime that does not answer the first question of a new kubelet is asked again soon: no Pod is
// taken in before.
func TestFirstQuestionThatHangs(t *testing.T) {
	runTest(t, func(r *rig) {
		r.advance(time.Second)
		r.stop()
		if err := r.fake.Fault("ListContainers", "1*hang"); err != nil {
			t.Fatal(err)
		}
		r.create(pod("web", scriptContainer("app", runs)))
		r.start()
		r.advance(20 * time.Second)
		r.phase("web", v1.PodRunning)
	})
}

// A static Pod is changed while neither kubelet nor API server is there, perhaps because it is the
// API server: the one before it is ended without asking anybody.
func TestAStaticPodChangedWhileNobodyWasThere(t *testing.T) {
	t.Parallel()
	r, dir := live(t, nil)
	l := r.connectWatches()
	put(t, dir, "web.yaml", manifest("web", ""))
	r.begin()
	before := r.running("web-n1")
	r.stop()
	l.disconnect()
	put(t, dir, "web.yaml", manifest("web", "    env: [{name: A, value: b}]\n"))
	r.begin()
	r.eventually("the new one", func() bool { id := r.container("web-n1"); return id != "" && id != before })
	r.assertOneSandbox()
}

// kubeletRun is one of the Pods that have a name one after another.
type kubeletRun struct {
	lives        time.Duration
	forced       bool // deleted at once, and the next is there at once
	call, fault  string
	killed, away time.Duration // the kubelet is killed so long after the creation; 0: it is not
}

func drawIncarnation(t *rapid.T, i int) kubeletRun {
	label := func(what string) string { return fmt.Sprint(what, " ", i) }
	ms := func(most int, what string) time.Duration {
		return time.Duration(rapid.IntRange(1, most).Draw(t, label(what))) * time.Millisecond
	}
	n := kubeletRun{lives: ms(6000, "lives"), forced: rapid.Bool().Draw(t, label("forced"))}
	if rapid.Bool().Draw(t, label("is soon deleted")) {
		n.lives = min(n.lives, 40*time.Millisecond)
	}
	if rapid.IntRange(0, 3).Draw(t, label("has a fault")) > 0 {
		n.call = rapid.SampledFrom([]string{"RunPodSandbox", "RunPodSandbox", "CreateContainer", "StartContainer",
			"StopContainer", "StopPodSandbox"}).Draw(t, label("call"))
		n.fault = rapid.SampledFrom([]string{"1*drop", "1*error(no luck)", "1*hang",
			fmt.Sprintf("1*late(%s)", ms(9000, "comes"))}).Draw(t, label("fault"))
	}
	if rapid.IntRange(0, 2).Draw(t, label("kubelet dies")) == 0 {
		n.killed, n.away = ms(6000, "killed"), ms(3000, "away")
		if rapid.Bool().Draw(t, label("is soon killed")) {
			n.killed = min(n.killed, 40*time.Millisecond)
		}
	}
	return n
}

// live lives one Pod's life up to its deletion.
func (n kubeletRun) live(r *rig, uid string) error {
	if n.call != "" {
		if err := r.fake.FaultPod("web", n.call, n.fault); err != nil {
			return err
		}
	}
	r.createNamed(uid, pod("web", scriptContainer("app", runs)))
	end := func() {
		if n.forced {
			r.forceDelete("web")
		} else {
			r.delete("web", 1)
		}
	}
	startedAt, deleted := time.Now(), false
	if n.killed > 0 {
		if n.lives < n.killed {
			time.Sleep(n.lives)
			end()
			deleted = true
		}
		time.Sleep(n.killed - time.Since(startedAt))
		r.crash()
		if !deleted && n.lives < n.killed+n.away {
			time.Sleep(n.lives - time.Since(startedAt))
			end()
			deleted = true
		}
		time.Sleep(n.killed + n.away - time.Since(startedAt))
		r.begin()
	}
	if !deleted {
		time.Sleep(n.lives - time.Since(startedAt))
		end()
	}
	for waited := 0; r.get("web") != nil && waited < 600; waited++ {
		r.advance(time.Second) // its name is taken while the API has it
	}
	if p := r.get("web"); p != nil {
		return fmt.Errorf("%s does not go: %+v", uid, p.Status)
	}
	return nil
}

// Pods of one name are made and deleted at any moment, the runtime loses its answers or comes late,
// the kubelet dies: never are two of them there at once, each ends, and the last one runs. No
// kubelet can promise that of a runtime that comes as late as it likes: here it comes within
// podplan.UncertainFor, see TestASandboxThatComesTooLate.
func TestPodsOfOneName(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue { // a whole kubelet each
		if err := checks.Value.Set("40"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = checks.Value.Set(checks.DefValue) }()
	}
	rapid.Check(t, func(rt *rapid.T) {
		var list []kubeletRun
		for i := range rapid.IntRange(1, 4).Draw(rt, "Pods") {
			list = append(list, drawIncarnation(rt, i))
		}
		var wrong []string
		runTest(t, func(r *rig) {
			r.advance(time.Second)
			for i, n := range list {
				if err := n.live(r, fmt.Sprint("uid-", i)); err != nil {
					wrong = append(wrong, err.Error())
					return
				}
			}
			r.createNamed("uid-last", pod("web", scriptContainer("app", runs)))
			// a stop that hangs takes two, a sandbox's making that hangs four, and a fault that
			// nobody met yet may hit the last one
			r.advance(15 * time.Minute)
			if p := r.get("web"); p.Status.Phase != v1.PodRunning {
				wrong = append(wrong, fmt.Sprintf("the last one does not run: %+v\n%s", p.Status, r.fake.Dump()))
			}
			if d := r.fake.Dump(); strings.Count(d, "pod default/web") != 1 {
				wrong = append(wrong, "the runtime has more than one:\n"+d)
			}
			if wrong = append(wrong, r.fake.DuplicateSandboxes()...); len(wrong) > 0 {
				wrong = append(wrong, r.facts.text())
			}
		})
		if len(wrong) > 0 {
			rt.Fatalf("got %v, want no wrong", strings.Join(wrong, "\n"))
		}
	})
}

// A Pod that only the runtime has is ended as it was meant to be: its hook is known from the
// runtime's records.
//
// row: TRM-05
func TestAPodThatOnlyTheRuntimeHasRunsItsHook(t *testing.T) {
	runTest(t, func(r *rig) {
		r.advance(time.Second)
		app := scriptContainer("app", runs)
		app.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 3}}}
		r.createNamed("uid-web", pod("web", app))
		r.advance(5 * time.Second)
		r.stop()
		r.forceDelete("web")
		before := r.fake.Count("StopContainer")
		r.start()
		r.advance(2900 * time.Millisecond)
		if n := r.fake.Count("StopContainer") - before; n != 0 {
			t.Errorf("TERM came before the hook was over\n%s", r.facts.text())
		}
		r.advance(10 * time.Second)
		r.expectPodGone("web")
		if !strings.Contains(r.facts.text(), "StopStep: container app: preStop") {
			t.Errorf(`got %v, want r.facts.all() with "StopStep: container app: preStop"`, r.facts.text())
		}
	})
}
