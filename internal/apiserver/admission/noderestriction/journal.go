package noderestriction

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gantry-project/gantry/internal/apiserver/registry/journal"
)

// admitPodJournal lets a node tell of Pods bound to it, and of those that are gone: nobody can say
// any more where they were. Pods are read from the cache, each once for a batch.
func (p *Plugin) admitPodJournal(ctx context.Context, name string, a admission.Attributes) error {
	batch, ok := a.GetObject().(*journal.PodJournal)
	if !ok {
		return nil
	}
	type who struct{ namespace, name, uid string }
	seen := map[who]bool{}
	for i := range batch.Entries {
		ref := &batch.Entries[i].Ref
		switch ref.Kind {
		case "", "Pod":
		case "Node":
			if ref.Name != name {
				return fmt.Errorf("entries[%d].ref: node %q can only tell of itself, not of node %q", i, name, ref.Name)
			}
			continue
		default:
			return fmt.Errorf("entries[%d].ref.kind: a node can only tell of itself and of Pods, not of a %s", i,
				ref.Kind)
		}
		w := who{ref.Namespace, ref.Name, ref.UID}
		if seen[w] {
			continue
		}
		seen[w] = true
		pod, err := p.client.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{ResourceVersion: "0"})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case ref.UID != "" && ref.UID != string(pod.UID):
		case pod.Spec.NodeName != name:
			return fmt.Errorf("entries[%d].ref: node %q can only tell of Pods bound to it, and %s/%s is bound to %q", i,
				name, ref.Namespace, ref.Name, pod.Spec.NodeName)
		}
	}
	return nil
}
