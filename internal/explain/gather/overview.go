package gather

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// maxPodsAsked bounds the Pods that an overview asks about, one for each owner; the others are
// named.
const maxPodsAsked = 40

// Overview says what is wrong in a namespace, or in the whole cluster when it is empty.
func Overview(ctx context.Context, client kubernetes.Interface, namespace string) (explain.Overview, error) {
	return OverviewAt(ctx, client, namespace, time.Now())
}

// OverviewAt is Overview with what counts as now.
func OverviewAt(ctx context.Context, client kubernetes.Interface, namespace string,
	now time.Time) (explain.Overview, error) {
	r := &reader{client: client}
	around := readClusterContext(ctx, r, everything)
	objects := readObjects(ctx, r, around, objectsAsk{now: now, namespace: namespace, all: true, demand: everything})
	answers, left, err := podAnswers(ctx, r, around, podsAsk{now: now, namespace: namespace, objects: objects})
	if err != nil {
		return explain.Overview{}, err
	}
	where := "the cluster"
	if namespace != "" {
		where = "namespace " + namespace
	}
	o := explain.NewOverview(where, finding.All(objects, namespace), answers)
	o.NotAsked = left
	o.Unread = r.unread
	return o, nil
}

// podsAsk says which Pods to ask about.
type podsAsk struct {
	now       time.Time
	namespace string // empty: all
	objects   *finding.Cluster
}

// podAnswers are the answers about the Pods that are not well, one for each owner; left are those
// beyond maxPodsAsked.
func podAnswers(ctx context.Context, r *reader, around *explain.ClusterContext,
	ask podsAsk) (out []explain.PodAnswer, left []finding.Object, err error) {
	near := map[string]*explain.NamespaceContext{}
	unwell := podsToAsk(around, ask)
	for _, p := range unwell[min(len(unwell), maxPodsAsked):] {
		left = append(left, finding.Object{Kind: "Pod", Namespace: p.Namespace, Name: p.Name})
	}
	for _, p := range unwell[:min(len(unwell), maxPodsAsked)] {
		in := explain.In{Now: ask.now, Pod: p, Ref: journal.Ref{Namespace: p.Namespace, Name: p.Name},
			Objects: ask.objects, ClusterContext: around, NamespaceContext: near[p.Namespace]}
		if err := readJournalFacts(ctx, r, &in); err != nil {
			return nil, nil, err
		}
		if err := readPodObjects(ctx, r, &in); err != nil {
			return nil, nil, err
		}
		near[p.Namespace] = in.NamespaceContext
		in.LastLogs = readLastLogs(ctx, r.client, p)
		out = append(out, explain.PodAnswer{Answer: explain.Why(in), Owner: ask.objects.PodOwner(p)})
	}
	return out, left, nil
}

// podsToAsk returns the Pods that are not well, one for each owner, the youngest of each.
func podsToAsk(around *explain.ClusterContext, ask podsAsk) []*corev1.Pod {
	if around == nil {
		return nil
	}
	byOwner := map[string][]*corev1.Pod{}
	for _, p := range around.Pods {
		if ask.namespace != "" && p.Namespace != ask.namespace {
			continue
		}
		key := p.Namespace + "/" + p.Name
		if o := metav1.GetControllerOf(p); o != nil {
			key = p.Namespace + "//" + o.Name
		}
		byOwner[key] = append(byOwner[key], p)
	}
	var out []*corev1.Pod
	for _, pods := range byOwner {
		if p := explain.WorstPod(pods, ask.now); p != nil {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return strings.Compare(fmt.Sprint(a.Namespace, "/", a.Name), fmt.Sprint(b.Namespace, "/", b.Name))
	})
	return out
}
