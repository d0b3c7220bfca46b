package gather

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/journal/remote"
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
	r := journal.Ref{Namespace: q.Namespace, Name: o.Name}
	a, known := explain.GoneByEvents(kind, r, l.Items, q.Now)
	if r.Kind = canonicalKind(kind); r.Kind == "" || r.Kind == "Pod" || r.Namespace == "" {
		return a, known
	}
	entries, err := remote.ReadOf(ctx, client, r)
	if err != nil {
		return a, known // without a journal, or what the caller may not read, the events remain
	}
	return explain.GoneByController(a, r, entries, q.Now)
}

// canonicalKind is a kind as manifests write it; empty where none is known by the word.
func canonicalKind(word string) string {
	if row, ok := rowOf(word); ok {
		return row.kind
	}
	return ""
}
