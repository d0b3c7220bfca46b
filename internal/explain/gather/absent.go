package gather

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/finding"
)

// noObject is the error that the object asked about is not there.
type noObject struct {
	object finding.Object
	memory string // what the journal or events hold about one that was there; empty: nothing was asked
}

func (e noObject) Error() string {
	where := ""
	if e.object.Namespace != "" {
		where = " in namespace " + e.object.Namespace
	}
	return fmt.Sprintf("there is no %s %s%s", strings.ToLower(e.object.Kind), e.object.Name, where)
}

// absentAnswer is the answer that an object is not there, of a noObject; another error stays. What
// a workload has not made yet is explained by the workload.
func absentAnswer(ctx context.Context, r *reader, q Question, err error) (explain.Answer, error) {
	var gone noObject
	if !errors.As(err, &gone) {
		return explain.Answer{}, err
	}
	if gone.object.Kind == "Pod" && !strings.Contains(q.About, "/") {
		if a, ok := nameAnswer(ctx, r, gone.object); ok {
			return a, nil
		}
	}
	f, toCome := finding.Absent(readNear(ctx, r, gone.object), gone.object)
	a := explain.NotThere(f, gone.memory)
	if toCome != nil {
		maker, err := AnswerWith(ctx, r.client, Question{Namespace: toCome.Namespace, Now: q.Now, Since: q.Since,
			About: strings.ToLower(toCome.Kind) + "/" + toCome.Name})
		if err == nil {
			a = explain.NotMadeYet(a, maker)
		}
	}
	a.Unread = append(r.unread, a.Unread...)
	return a, nil
}

// readNear reads what may have been meant by an object that is not there, as far as the caller may
// list it: the kind and those that make it in the object's namespace, and of all other kinds and
// namespaces what has the very name.
func readNear(ctx context.Context, r *reader, o finding.Object) *finding.Cluster {
	c := &finding.Cluster{}
	rows := append(kindRows(), kindRow{"Pod", "", namespaced, func(ctx context.Context, c clientset, ns string,
		o listing) (runtime.Object, error) {
		return c.CoreV1().Pods(ns).List(ctx, o)
	}})
	if r.row != nil {
		rows = append(rows, *r.row)
	}
	named := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", o.Name).String()}
	whole := metav1.ListOptions{ResourceVersion: "0"}
	var mu sync.Mutex
	var wait sync.WaitGroup
	free := make(chan struct{}, readers)
	read := func(row kindRow, ns string, ask metav1.ListOptions) {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			l, err := row.list(ctx, r.client, ns, ask)
			if err != nil {
				return // what cannot be read is not near
			}
			mu.Lock()
			defer mu.Unlock()
			for _, x := range stripped(extracted(l)) {
				if (ask.FieldSelector == "" || x.GetName() == o.Name) && c.Get(finding.Object{Kind: row.kind,
					Namespace: x.GetNamespace(), Name: x.GetName()}) == nil {
					c.Add(row.kind, x)
				}
			}
		})
	}
	all := finding.Makers(o.Kind)
	for _, row := range rows {
		within := row.scope == namespaced || row.scope == inside
		switch {
		case row.kind == o.Kind:
			read(row, o.Namespace, whole)
			if o.Namespace != "" {
				read(row, "", named)
			}
		case row.kind == "Namespace", slices.Contains(all, row.kind) && o.Namespace != "":
			read(row, o.Namespace, whole)
		case within && o.Namespace != "", row.scope == shared:
			read(row, o.Namespace, named)
		}
	}
	wait.Wait()
	return c
}

// nearKind says which kind was probably meant by a word; empty where none is near.
func nearKind(word string) string {
	known := slices.Collect(maps.Keys(kindAliases()))
	for _, row := range kindRows() {
		known = append(known, strings.ToLower(row.kind))
	}
	name, differs := finding.Near(strings.ToLower(word), known)
	if name == "" || len(word) < 4 {
		return ""
	}
	return fmt.Sprintf("; perhaps %s was meant, %s", name, differs)
}
