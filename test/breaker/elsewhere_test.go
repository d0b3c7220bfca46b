package breaker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/gather"
)

// place is where and when a break is asked about.
type place struct {
	namespace, ask string
	now            time.Time
}

// askElsewhere asks about a break from its Pods, their owner, Services, the namespace and without a
// name, where the truth is about Pods; it returns the questions whose answer does not blame what is
// true, and what the first finding is instead.
func (b *breaker) askElsewhere(ctx context.Context, at place, all []truth) []string {
	var missed []string
	if len(all) == 0 {
		return nil
	}
	first := all[0]
	for _, ask := range b.questions(ctx, at, first) {
		a, err := gather.AnswerWith(ctx, b.client, gather.Question{Namespace: at.namespace, About: ask, Now: at.now})
		if err != nil {
			missed = append(missed, fmt.Sprintf("%s: %v", ask, err))
		} else if find(a.Findings, first) < 0 {
			missed = append(missed, fmt.Sprintf("%s: %s: %s", ask, a.State, firstOf(a.Findings)))
		}
	}
	o, err := gather.OverviewAt(ctx, b.client, at.namespace, at.now)
	var found []finding.Finding
	for _, c := range o.Causes {
		found = append(found, c.Finding)
	}
	if err != nil {
		missed = append(missed, fmt.Sprintf("without a name: %v", err))
	} else if find(found, first) < 0 {
		missed = append(missed, fmt.Sprintf("without a name: %s", firstOf(found)))
	}
	return missed
}

func firstOf(list []finding.Finding) string {
	if len(list) == 0 {
		return "no finding"
	}
	return fmt.Sprintf("%s of %s %s", list[0].Code, list[0].Object, list[0].Field)
}

// questions are the further ones: the namespace always; Pods, owners and Services where the truth
// is about Pods.
func (b *breaker) questions(ctx context.Context, at place, t truth) []string {
	var out []string
	kinds := strings.Fields(t.kinds)
	asked, _, _ := strings.Cut(at.ask, "/")
	if b.within(asked) {
		out = append(out, "namespace/"+at.namespace)
	}
	if !slices.Contains(kinds, "Pod") || !slices.Contains([]string{"pod", "deployment", "statefulset", "daemonset",
		"replicaset", "job"}, asked) {
		return out
	}
	pods, err := b.client.CoreV1().Pods(at.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return out
	}
	services, err := b.client.CoreV1().Services(at.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return out
	}
	for _, p := range pods.Items {
		about := "pod/" + p.Name
		if o := b.ownerOf(ctx, &p); o != at.ask && about != at.ask {
			continue // another Pod is not what was broken
		} else if about != at.ask && p.Status.Phase == corev1.PodPending {
			out = append(out, about)
		} else if o != "" && o != at.ask {
			out = append(out, o)
		}
		for _, s := range services.Items {
			if len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels)) {
				out = append(out, "service/"+s.Name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// within reports whether objects of a kind are in a namespace.
func (b *breaker) within(kind string) bool {
	gvk, err := b.mapper.KindFor(schema.GroupVersionResource{Resource: cmp.Or(plurals[kind], kind+"s")})
	if err != nil {
		return false
	}
	m, err := b.mapper.RESTMapping(gvk.GroupKind())
	return err == nil && m.Scope.Name() == meta.RESTScopeNameNamespace
}

// ownerOf is the outermost controller of a Pod as it is asked about; empty: none.
func (b *breaker) ownerOf(ctx context.Context, p *corev1.Pod) string {
	r := metav1.GetControllerOf(p)
	if r == nil {
		return ""
	}
	if r.Kind == "ReplicaSet" {
		if s, err := b.client.AppsV1().ReplicaSets(p.Namespace).Get(ctx, r.Name, metav1.GetOptions{}); err == nil {
			if d := metav1.GetControllerOf(s); d != nil {
				r = d
			}
		}
	}
	return strings.ToLower(r.Kind) + "/" + r.Name
}

// elsewhereShare is which part of the kinds is asked about elsewhere in every test.
const elsewhereShare = 6

// leastElsewherePercent of the breaks that their own question names are named by every other one.
const leastElsewherePercent = 90

// A break is named whichever thing one asks about: the Pod, its owner, its Service, the namespace,
// or nothing. A part of the kinds of a seed; with GANTRY_ELSEWHERE all.
func TestEveryQuestionNamesTheBreak(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays a hundred breaks")
	}
	b, r := start(t), newTotals()
	b.others = true
	seed := number("GANTRY_SEED", 1)
	var kinds []kind
	for i, k := range allKinds() {
		if len(k.truth) > 0 && (i%elsewhereShare == seed%elsewhereShare || os.Getenv("GANTRY_ELSEWHERE") != "") {
			kinds = append(kinds, k)
		}
	}
	var mu sync.Mutex
	missed, asked := map[string][]string{}, 0
	b.reported = func(name string, p points) {
		mu.Lock()
		defer mu.Unlock()
		if !p.cause {
			return
		}
		if asked++; len(p.elsewhere) > 0 {
			missed[name] = p.elsewhere
		}
	}
	b.playAll(t.Context(), r, seed, kinds)
	for _, name := range slices.Sorted(maps.Keys(missed)) {
		t.Logf("%s:\n  %s", name, strings.Join(missed[name], "\n  "))
	}
	t.Logf("%d of %d breaks are named by every question", asked-len(missed), asked)
	if 100*(asked-len(missed)) < leastElsewherePercent*asked {
		t.Errorf("got %d of %d, want %d %%", asked-len(missed), asked, leastElsewherePercent)
	}
}
