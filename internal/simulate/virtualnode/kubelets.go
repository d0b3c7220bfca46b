package virtualnode

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/simulate/behavior"
)

// Kubelets runs the Pods of all nodes. One goroutine uses it.
type Kubelets struct {
	client kubernetes.Interface
	now    func() time.Time
	model  behavior.Model

	lost map[string]bool // nodes whose kubelet does not answer
	pods map[types.UID]*podWorker
	due  []types.UID // Pods that changed since their last step, in order
	ips  int

	attachable  Attachable // nil: no volume is attached
	attachments attachments
}

// Options are what Kubelets are made from.
type Options struct {
	Client     kubernetes.Interface
	Now        func() time.Time
	Model      behavior.Model
	Attachable Attachable // nil: no volume is attached
}

// New returns kubelets without Pods.
func New(o Options) *Kubelets {
	return &Kubelets{client: o.Client, now: o.Now, model: o.Model, lost: map[string]bool{},
		pods: map[types.UID]*podWorker{}, attachable: o.Attachable,
		attachments: attachments{map[string]map[v1.UniqueVolumeName]bool{}, map[string][]v1.UniqueVolumeName{},
			map[string]bool{}}}
}

// Lose makes a node's kubelet silent: it reports nothing and stops nothing any more.
func (k *Kubelets) Lose(node string) { k.lost[node] = true }

// Lost tells whether a node's kubelet is silent.
func (k *Kubelets) Lost(node string) bool { return k.lost[node] }

// PodChanged takes in a version of a Pod; cur is nil when it is gone.
func (k *Kubelets) PodChanged(old, cur *v1.Pod) {
	if cur == nil {
		if w := k.pods[old.UID]; w != nil {
			k.released(w)
			delete(k.pods, old.UID)
		}
		return
	}
	if cur.Spec.NodeName == "" {
		return
	}
	w := k.pods[cur.UID]
	if w == nil {
		w = k.newWorker(cur)
		k.pods[cur.UID] = w
	}
	w.pod = cur
	k.mark(w)
}

func (k *Kubelets) mark(w *podWorker) {
	if !w.marked {
		w.marked = true
		k.due = append(k.due, w.pod.UID)
	}
}

// Wake returns when the next Pod has something to do by itself: the present time if one has now,
// the zero time if none will.
func (k *Kubelets) Wake() time.Time {
	if len(k.due) > 0 || len(k.attachments.dirty) > 0 {
		return k.now()
	}
	var at time.Time
	for _, w := range k.pods {
		if k.lost[w.pod.Spec.NodeName] || w.wake.IsZero() {
			continue
		}
		if at.IsZero() || w.wake.Before(at) {
			at = w.wake
		}
	}
	return at
}

// Step lets one Pod go on; false: none has anything to do now. The error is that the API refused
// what a kubelet writes.
func (k *Kubelets) Step(ctx context.Context) (bool, error) {
	if wrote, err := k.reportInUse(ctx); wrote {
		return true, err
	}
	if len(k.due) == 0 {
		k.markWoken()
	}
	for len(k.due) > 0 {
		w := k.pods[k.due[0]]
		k.due = k.due[1:]
		if w == nil {
			continue
		}
		w.marked = false
		if k.lost[w.pod.Spec.NodeName] {
			continue
		}
		return true, k.step(ctx, w)
	}
	return false, nil
}

// markWoken marks the Pods whose time has come, in the order of their times and names.
func (k *Kubelets) markWoken() {
	now := k.now()
	var woken []*podWorker
	for _, w := range k.pods {
		if !w.wake.IsZero() && !w.wake.After(now) && !k.lost[w.pod.Spec.NodeName] {
			woken = append(woken, w)
		}
	}
	sortWorkers(woken)
	for _, w := range woken {
		k.mark(w)
	}
}

// step brings a Pod to now and writes its status. One that fails stays as it is until it is
// deleted.
func (k *Kubelets) step(ctx context.Context, w *podWorker) error {
	if w.fails != "" && w.pod.DeletionTimestamp == nil {
		return nil
	}
	gone := w.advance(k.now(), k.waitsForVolumes)
	if !w.facts.Released.IsZero() || pod.IsTerminal(w.pod) {
		k.released(w)
	}
	status := w.status(k.now())
	if !sameStatus(w.pod.Status, status) {
		p := w.pod.DeepCopy()
		p.Status, p.ResourceVersion = status, ""
		written, err := k.client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
		if err != nil {
			return ignoreGone(err)
		}
		w.pod = written
	}
	if !gone || w.pod.DeletionTimestamp == nil {
		return nil
	}
	none := int64(0)
	return ignoreGone(k.client.CoreV1().Pods(w.pod.Namespace).Delete(ctx, w.pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &none, Preconditions: metav1.NewUIDPreconditions(string(w.pod.UID))}))
}

// ignoreGone is nil for a Pod that is gone, or whose name another has.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
