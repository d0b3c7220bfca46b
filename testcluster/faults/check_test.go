package faults_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

func running(p *v1.Pod) bool { return p != nil && p.Status.Phase == v1.PodRunning }

// wait polls until ok returns true; nil is a Pod that does not exist.
func (w *fixture) wait(name string, ok func(*v1.Pod) bool) *v1.Pod {
	w.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		p, err := w.c.Client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			p, err = nil, nil
		}
		if err == nil && ok(p) {
			return p
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("pod %s did not come to where it belongs: %v\n%s\n%s\n%s", name, err, w.transcript(),
				w.life(p, name), w.c.Dump())
		}
		<-tick.C
	}
}

// life describes what is known of a Pod.
func (w *fixture) life(p *v1.Pod, name string) string {
	var b strings.Builder
	if p != nil {
		fmt.Fprintf(&b, "uid %s node %q deleted %v generation %d status %+v\n", p.UID, p.Spec.NodeName,
			p.DeletionTimestamp, p.Generation, p.Status)
	}
	for _, e := range w.c.Journal("default", name) {
		fmt.Fprintf(&b, "%s %s %s: %s\n", e.At.Format("05.000"), e.Ref.UID, e.By, e.Fact.Line())
	}
	return b.String()
}

// checkInvariants checks the invariants: one ready sandbox per name, no container twice.
func (w *fixture) checkInvariants() {
	duplicates := w.c.Runtime(node).DuplicateSandboxes()
	for _, pair := range duplicates[w.duplicates:] {
		w.t.Errorf("two ready sandboxes of one name: %s", pair)
	}
	w.duplicates = len(duplicates)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.broken {
		w.t.Error(b)
	}
	w.broken = nil
}

// settled waits until every Pod is in its final state, and checks that those that stay were not
// affected.
func (w *fixture) settled() {
	ctx, cancel := w.ctx()
	defer cancel()
	list, err := w.c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range list.Items {
		w.wait(p.Name, func(now *v1.Pod) bool {
			if now == nil || now.UID != p.UID {
				return true // it ended
			}
			return now.DeletionTimestamp == nil &&
				(now.Status.Phase == v1.PodRunning || now.Status.Phase == v1.PodSucceeded)
		})
	}
	for name, id := range w.stay {
		p := w.wait(name, running)
		if st := p.Status.ContainerStatuses[0]; st.ContainerID != id || st.RestartCount != 0 ||
			st.State.Running == nil {
			w.t.Errorf("%s was container %s, is %+v", name, id, st)
		}
	}
	ctx, done := w.ctx() // the first one's time was spent waiting
	defer done()
	for _, name := range w.baseline {
		if _, err := w.c.Client.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{}); err != nil {
			w.t.Errorf("an acknowledged write is lost: %v, want no error", err)
		}
	}
	w.checkInvariants()
	w.orders(list.Items)
}

// orders checks in the journal that no container of a Pod started after its stop was requested.
func (w *fixture) orders(list []v1.Pod) {
	seen := map[string]bool{}
	for i := range names {
		seen[fmt.Sprintf("p-%d", i)] = true
	}
	for _, p := range list {
		seen[p.Name] = true
	}
	for name := range seen {
		asked := map[string]bool{}
		for _, e := range w.c.Journal("default", name) {
			switch f := e.Fact.(type) {
			case journal.Killing:
				asked[e.Ref.UID] = asked[e.Ref.UID] || f.Container == ""
			case journal.ContainerStarted:
				if asked[e.Ref.UID] {
					w.t.Errorf("%s (%s): container %s started after its stop was asked for", name, e.Ref.UID,
						f.Container)
				}
			}
		}
	}
}

// clear deletes all Pods but those that stay and checks that nothing of them is left.
func (w *fixture) clear() {
	ctx, cancel := w.ctx()
	defer cancel()
	list, err := w.c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range list.Items {
		if !strings.HasPrefix(p.Name, "stay-") {
			w.delete(p.Name, 1)
		}
	}
	for _, p := range list.Items {
		if !strings.HasPrefix(p.Name, "stay-") {
			w.wait(p.Name, func(now *v1.Pod) bool { return now == nil })
		}
	}
	w.only(stays)
	w.lines = append(w.lines, "")
}

// kinds removes unused faults of the runtime.
func (w *fixture) kinds() {
	for _, method := range []string{"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer",
		"StopPodSandbox", "RemovePodSandbox"} {
		w.c.Fault(node, method, "")
	}
}

// only waits until the node has nothing but n Pods: leftovers of a Pod are removed some time after
// its API object.
func (w *fixture) only(n int) {
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	want := map[string]int{"runtime": 2 * n, "address": n, "cgroup": n, "directory": 2 * n}
	for {
		left, err := w.c.LeftoverCgroups(node)
		if err != nil {
			w.t.Fatal(err)
		}
		have := map[string]int{"runtime": 0, "address": 0, "cgroup": 0, "directory": 0}
		for _, l := range left {
			kind, _, _ := strings.Cut(l, ":")
			have[kind]++
		}
		same := true
		for kind, n := range want {
			same = same && have[kind] == n
		}
		if same {
			return
		}
		if time.Now().After(deadline) {
			slices.Sort(left)
			w.t.Errorf("left behind: %v, want %v\n%s", have, want, strings.Join(left, "\n"))
			return
		}
		<-tick.C
	}
}

// end deletes the Pods that stayed, too: nothing at all is left then.
func (w *fixture) end() {
	for name := range w.stay {
		w.delete(name, 1)
	}
	for name := range w.stay {
		w.wait(name, func(p *v1.Pod) bool { return p == nil })
	}
	w.only(0)
}
