package gather

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/gantry-project/gantry/internal/explain"
)

// goneAnswer explains an object that is not there by its events, where the asker may read them.
func goneAnswer(ctx context.Context, client clientset, q Question, kind, name string) (explain.Answer, bool) {
	l, err := client.CoreV1().Events(q.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.name", name).String()})
	if err != nil {
		return explain.Answer{}, false // the refusal of the object itself is told
	}
	if kind == "pvc" {
		kind = "persistentvolumeclaim"
	}
	return explain.GoneByEvents(kind, q.Namespace, name, l.Items, q.Now)
}
