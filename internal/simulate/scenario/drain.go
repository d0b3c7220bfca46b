package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/drain"

	"github.com/gantry-project/gantry/internal/simulate/forecast"
)

// evictRetry is how long `kubectl drain` waits after a budget has refused an eviction.
const evictRetry = 5 * time.Second

// Drain empties nodes one after the other, as `kubectl drain` does with several: all are cordoned
// first.
type Drain struct {
	Nodes []string
	Zone  string // instead of Nodes: all nodes of this zone, by name
	// as kubectl's flags --force, --delete-emptydir-data, --grace-period (nil: the Pods' own)
	Force, DeleteEmptyDir bool
	GracePeriod           *int

	at      int // the node that is being drained
	waiting map[types.UID]types.NamespacedName
	began   bool // draining of the node at
	failed  error
}

// Verb implements Change.
func (d *Drain) Verb() string { return "drain" }

// Target implements Change.
func (d *Drain) Target() []string {
	if d.Zone != "" {
		return []string{"zone/" + d.Zone}
	}
	out := make([]string, len(d.Nodes))
	for i, n := range d.Nodes {
		out[i] = "node/" + n
	}
	return out
}

func (d *Drain) helper(ctx context.Context, r *Run) *drain.Helper {
	grace := -1
	if d.GracePeriod != nil {
		grace = *d.GracePeriod
	}
	return &drain.Helper{Ctx: ctx, Client: r.Cluster.Client(), Force: d.Force, GracePeriodSeconds: grace,
		IgnoreAllDaemonSets: true, DeleteEmptyDirData: d.DeleteEmptyDir, Out: io.Discard, ErrOut: io.Discard}
}

// Begin implements Change.
func (d *Drain) Begin(ctx context.Context, r *Run) error {
	h := d.helper(ctx, r)
	if d.Zone != "" {
		var err error
		if d.Nodes, err = nodesOf(ctx, r, d.Zone); err != nil {
			return err
		}
	}
	for _, name := range d.Nodes {
		n, err := r.Cluster.Client().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nodeError(ctx, r, name, err)
		}
		if err := drain.RunCordonOrUncordon(h, n, true); err != nil {
			return fmt.Errorf("cordoning node %s: %w", name, err)
		}
	}
	// the first eviction comes when everybody knows that the nodes are cordoned
	r.Cluster.At(r.Cluster.Now(), func(ctx context.Context) { d.next(ctx, r) })
	return nil
}

// nodesOf returns the nodes of a zone by name, of which there must be one.
func nodesOf(ctx context.Context, r *Run, zone string) ([]string, error) {
	all, err := r.Cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names, zones []string
	for _, n := range all.Items {
		z := n.Labels[corev1.LabelTopologyZone]
		if z == zone {
			names = append(names, n.Name)
		}
		if z != "" && !slices.Contains(zones, z) {
			zones = append(zones, z)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no node in zone %q; zones are: %s", zone, strings.Join(zones, ", "))
	}
	return names, nil
}

// nodeError names the nodes that there are.
func nodeError(ctx context.Context, r *Run, name string, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	all, listErr := r.Cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if listErr != nil {
		return err
	}
	var names []string
	for _, n := range all.Items {
		names = append(names, n.Name)
	}
	return fmt.Errorf("there is no node %q; there are: %s", name, strings.Join(names, ", "))
}

// next begins to drain the node at d.at.
func (d *Drain) next(ctx context.Context, r *Run) {
	d.began, d.waiting = true, map[types.UID]types.NamespacedName{}
	list, errs := d.helper(ctx, r).GetPodsForDeletion(d.Nodes[d.at])
	if len(errs) > 0 {
		d.failed = fmt.Errorf("kubectl drain refuses: %w", errors.Join(errs...))
		return
	}
	if w := list.Warnings(); w != "" {
		r.Forecast.Notes = append(r.Forecast.Notes, "kubectl drain says: "+w)
	}
	pods := list.Pods()
	if r.seed > 0 { // kubectl evicts all at once, so that any may be first
		rand.New(rand.NewPCG(r.seed, uint64(d.at))).Shuffle(len(pods),
			func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	}
	for i := range pods {
		d.waiting[pods[i].UID] = types.NamespacedName{Namespace: pods[i].Namespace, Name: pods[i].Name}
		d.evict(ctx, r, &pods[i])
	}
}

// evict evicts a Pod, or tries again later where kubectl does.
func (d *Drain) evict(ctx context.Context, r *Run, p *corev1.Pod) {
	fresh, err := r.Cluster.Client().CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && fresh.UID != p.UID {
		return
	}
	err = d.helper(ctx, r).EvictPod(*p, policyv1.SchemeGroupVersion)
	key := p.Namespace + "/" + p.Name
	switch {
	case err == nil, apierrors.IsNotFound(err):
		r.letGo(key)
	case apierrors.IsTooManyRequests(err),
		apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		if r.blocked(key) < 0 {
			r.Forecast.Blocked = append(r.Forecast.Blocked, blocked(p, err, r.Since()))
		}
		r.Cluster.At(r.Cluster.Now().Add(evictRetry), func(ctx context.Context) { d.evict(ctx, r, p) })
	default:
		d.failed = fmt.Errorf("evicting pod %s/%s: %w", p.Namespace, p.Name, err)
	}
}

// blocked is the place of the refusal by which a Pod, as namespace/name, is held up; negative:
// none.
func (r *Run) blocked(pod string) int {
	return slices.IndexFunc(r.Forecast.Blocked,
		func(b forecast.Blocked) bool { return b.Pod == pod && b.Until == nil })
}

// letGo notes that a Pod is not held up any more: it was evicted, or went by itself.
func (r *Run) letGo(pod string) {
	if i := r.blocked(pod); i >= 0 {
		now := r.Since()
		r.Forecast.Blocked[i].Until = &now
	}
}

// blocked is a refusal of an eviction, with the budget's words.
func blocked(p *corev1.Pod, err error, now time.Duration) forecast.Blocked {
	b := forecast.Blocked{Pod: p.Namespace + "/" + p.Name, Message: err.Error(), From: now}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return b
	}
	for _, c := range status.Status().Details.Causes {
		if c.Type == policyv1.DisruptionBudgetCause {
			b.Message = c.Message
			_, rest, _ := strings.Cut(c.Message, "disruption budget ")
			b.Budget, _, _ = strings.Cut(rest, " ")
		}
	}
	return b
}

// Done implements Change: all nodes are empty, and what left is ready elsewhere.
func (d *Drain) Done(ctx context.Context, r *Run) (bool, error) {
	if d.failed != nil {
		return false, d.failed
	}
	if !d.began {
		return false, nil
	}
	for uid, name := range d.waiting {
		p, err := r.Cluster.Client().CoreV1().Pods(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && p.UID != uid {
			delete(d.waiting, uid)
			r.letGo(name.Namespace + "/" + name.Name)
		}
	}
	if len(d.waiting) > 0 {
		return false, nil
	}
	if d.at+1 < len(d.Nodes) {
		d.at++
		d.began = false
		r.Cluster.At(r.Cluster.Now(), func(ctx context.Context) { d.next(ctx, r) })
		return false, nil
	}
	return r.allReady(), nil
}
