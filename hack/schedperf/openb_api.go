package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// throughAPI has a scheduler place the trace through an API server. One client creates Pods in the
// order of the trace, which decides what fits.
func (t *trace) throughAPI(ctx context.Context, o options) (r row, err error) {
	b, err := o.openTestbed(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	if err := b.prepare(ctx, workload{}, 0); err != nil {
		return r, err
	}
	if err := b.each(ctx, len(t.nodes), func(i int) error { return b.node(ctx, t.nodes[i].DeepCopy()) }); err != nil {
		return r, err
	}
	w, err := b.watch(ctx, "sched-1")
	if err != nil {
		return r, err
	}
	n := len(t.pods)
	born := make([]time.Time, n)
	from := usage{time.Now(), cpuOf(b.pid)}
	for i, p := range t.pods {
		c := p.DeepCopy()
		c.Namespace, c.Name = "sched-1", fmt.Sprintf("pod-%d", i)
		born[i] = time.Now()
		if err := b.create(ctx, c); err != nil {
			return r, fmt.Errorf("Pod %s: %w", p.Name, err)
		}
	}
	bound := w.waitStable(ctx, n)
	r = b.measured(ctx, "openb, through the API", moments{created: born, bound: bound}, from)
	r.Nodes = len(t.nodes)
	r.Note, err = b.fragments(ctx, t)
	return r, err
}

// fragments describes what is left of the GPUs.
func (b *testbed) fragments(ctx context.Context, t *trace) (string, error) {
	m, err := newEvaluator(false)
	if err != nil {
		return "", err
	}
	for _, n := range t.nodes {
		m.snapshot.SetNode(n)
	}
	list, err := b.client.CoreV1().Pods("sched-1").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.NodeName == "" {
			continue
		}
		p.UID = types.UID(p.Name)
		if err := m.snapshot.AssumePod(p, p.Spec.NodeName); err != nil {
			return "", err
		}
	}
	free, stranded := m.fragments()
	return fmt.Sprintf("GPU free %.1f %%, of it %.1f %% on nodes without a whole CPU left", 100*free, 100*stranded), nil
}
