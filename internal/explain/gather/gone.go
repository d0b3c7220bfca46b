package gather

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// goneAnswer explains an object that is not there by its events, where the caller may read them.
func goneAnswer(ctx context.Context, client clientset, q Question, o finding.Object) (explain.Answer, bool) {
	l, err := client.CoreV1().Events(q.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.name", o.Name).String()})
	if err != nil {
		return explain.Answer{}, false // the refusal of the object itself is told
	}
	kind := o.Kind
	if kind == "pvc" {
		kind = "persistentvolumeclaim"
	}
	return explain.GoneByEvents(kind, journal.Ref{Namespace: q.Namespace, Name: o.Name}, l.Items, q.Now)
}
