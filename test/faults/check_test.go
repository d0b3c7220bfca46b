package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/network/ipam"
	"github.com/gantry-project/gantry/test/instance"
)

// wait asks until the Pod is as ok says; nil is one that is not there.
func (w *fixture) wait(name string, ok func(*v1.Pod) bool) *v1.Pod {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 60*time.Second)
	defer cancel()
	var p *v1.Pod
	w.must(instance.Poll(ctx, 30*time.Millisecond, func() error {
		var err error
		p, err = w.client.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			p, err = nil, nil
		}
		if err == nil && !ok(p) {
			err = fmt.Errorf("pod %s is not as it should be: %+v", name, p)
		}
		return err
	}))
	return p
}

// settled waits until every Pod is where it belongs; those that stay have not felt anything, and
// what was acknowledged is there.
func (w *fixture) settled(ctx context.Context) {
	var list *v1.PodList
	w.must(instance.Poll(ctx, 50*time.Millisecond, func() (err error) {
		list, err = w.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err
	}))
	for _, p := range list.Items {
		w.wait(p.Name, func(now *v1.Pod) bool {
			return now == nil || now.UID != p.UID ||
				now.DeletionTimestamp == nil && (ready(now) || now.Status.Phase == v1.PodSucceeded)
		})
	}
	for name, id := range w.stay {
		p := w.wait(name, func(p *v1.Pod) bool { return p != nil && p.Status.Phase == v1.PodRunning })
		if st := p.Status.ContainerStatuses[0]; st.ContainerID != id || st.RestartCount != 0 ||
			st.State.Running == nil {
			w.t.Errorf("%s was container %s, is %+v", name, id, st)
		}
	}
	for _, name := range w.baseline {
		if _, err := w.client.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{}); err != nil {
			w.t.Errorf("an acknowledged write is lost: %v, want no error", err)
		}
	}
	var boxes []*runtimeapi.PodSandbox
	w.must(instance.Poll(ctx, 50*time.Millisecond, func() (err error) { // the runtime itself may be on its way back
		boxes, err = w.cri.Runtime().ListPodSandbox(ctx,
			&runtimeapi.PodSandboxFilter{
				State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}})
		return err
	}))
	names := map[string]int{}
	for _, b := range boxes {
		if names[b.Metadata.Name]++; names[b.Metadata.Name] > 1 {
			w.t.Errorf("%s has %d ready sandboxes", b.Metadata.Name, names[b.Metadata.Name])
		}
	}
}

func ready(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions,
		func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
}

// clear deletes all Pods but those that stay and waits until nothing is left of them.
func (w *fixture) clear(ctx context.Context) {
	list, err := w.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	w.must(err)
	for _, p := range list.Items {
		if _, stays := w.stay[p.Name]; !stays {
			w.delete(p.Name, 1)
		}
	}
	for _, p := range list.Items {
		if _, stays := w.stay[p.Name]; !stays {
			w.wait(p.Name, func(p *v1.Pod) bool { return p == nil })
		}
	}
	w.only(len(w.stay))
}

// end deletes the Pods that stayed, too.
func (w *fixture) end() {
	ctx, cancel := context.WithTimeout(w.t.Context(), 60*time.Second)
	defer cancel()
	w.stay = map[string]string{}
	w.clear(ctx)
}

// only waits until the node holds nothing but n Pods.
func (w *fixture) only(n int) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	w.must(instance.Poll(ctx, 100*time.Millisecond, func() error {
		boxes, err := w.cri.Runtime().ListPodSandbox(ctx, nil)
		if err != nil {
			return err
		}
		list, err := w.cri.Runtime().ListContainers(ctx, nil)
		if err != nil {
			return err
		}
		book, err := ipam.Store{Dir: filepath.Join(w.state(), "net")}.View()
		if err != nil {
			return err
		}
		volumes := entries(filepath.Join(w.i.Dir, "kubelet", "pods"))
		links := entries("/sys/class/net/gyard71/brif")
		for what, have := range map[string]int{
			"sandboxes": len(boxes), "containers": len(list), "directories of volumes": len(volumes),
			"links": len(links), "addresses": len(book.Leases),
			"cgroups": w.cgroups(), "mounts (Pods with some)": w.mounts(),
		} {
			if have != n {
				err = errors.Join(err, fmt.Errorf("%d %s, want %d", have, what, n))
			}
		}
		return err
	}))
}

func entries(dir string) []os.DirEntry {
	list, _ := os.ReadDir(dir) // none when it is not there
	return list
}

// mounts counts the Pods that have volumes mounted.
func (w *fixture) mounts() int {
	raw, err := os.ReadFile("/proc/mounts")
	w.must(err)
	uids := map[string]bool{}
	for _, line := range strings.Split(string(raw), "\n") {
		if _, rest, ours := strings.Cut(line, filepath.Join(w.i.Dir, "kubelet", "pods")+"/"); ours {
			uid, _, _ := strings.Cut(rest, "/")
			uids[uid] = true
		}
	}
	return len(uids)
}

// cgroups counts the cgroups of Pods.
func (w *fixture) cgroups() int {
	uids := map[string]bool{}
	for _, pattern := range []string{"/sys/fs/cgroup/gantry-%s", "/sys/fs/cgroup/memory/gantry-%s",
		"/sys/fs/cgroup/cpu/gantry-%s"} {
		root := fmt.Sprintf(pattern, filepath.Base(w.state()))
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "pod") {
				uids[d.Name()] = true
			}
			return nil // what went away meanwhile is not there
		})
	}
	return len(uids)
}
