package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/pod"
)

// Ranking names the rule by which Pods are ordered; empty is Upstream.
type Ranking string

// The rankings.
const (
	Upstream Ranking = "upstream" // above requests, low priority, use over requests
	Seed001  Ranking = "seed-001" // QoS class, use over requests, low priority
	Seed003  Ranking = "seed-003" // Pods above their requests only, by QoS class, use over requests
)

// Rankings are the names of all of them.
func Rankings() []string { return []string{string(Upstream), string(Seed001), string(Seed003)} }

// ParseRanking reads a ranking's name.
func ParseRanking(name string) (Ranking, error) {
	switch r := Ranking(name); r {
	case "":
		return Upstream, nil
	case Upstream, Seed001, Seed003:
		return r, nil
	}
	return "", fmt.Errorf("there is no eviction ranking %q; there are %s", name, strings.Join(Rankings(), ", "))
}

// Ranked is a Pod with all that decides its place.
type Ranked struct {
	Pod      *v1.Pod
	Measured bool // its use is known; Pods of which nothing is known go first
	// what counts of its use for the signal, and what it requests of that
	Use, Request resource.Quantity
	Over         resource.Quantity // use less what is forgiven of it
	Exceeds      bool              // takes more than it requests
	Critical     bool              // never a victim
}

// Criterion is one of the comparisons that a ranking makes, in turn.
type Criterion string

// The criteria. Pods of which nothing was measured are first by Exceeding and Over.
const (
	Exceeding Criterion = "takes more than it requests" // before those that do not
	Priority  Criterion = "priority"                    // low before high
	Over      Criterion = "use over requests"           // much before little
	QOSClass  Criterion = "QoS class"                   // BestEffort, Burstable, Guaranteed
)

// rule is how one ranking orders.
type rule struct {
	order     func(use) []Criterion
	candidate func(*Ranked) bool // nil: all Pods are
	critical  func(*v1.Pod) bool
}

var rankingRules = map[Ranking]rule{
	Upstream: {critical: pod.IsCritical, order: func(u use) []Criterion {
		if u.neverExceeds {
			return []Criterion{Priority, Over}
		}
		return []Criterion{Exceeding, Priority, Over}
	}},
	Seed001: {critical: isCriticalOrAnnotated,
		order: func(use) []Criterion { return []Criterion{QOSClass, Over, Priority} }},
	Seed003: {critical: pod.IsCritical, candidate: func(r *Ranked) bool { return !r.Measured || r.Exceeds },
		order: func(use) []Criterion { return []Criterion{QOSClass, Over, Priority} }},
}

// Candidates are the Pods of a node, and what they take of it.
type Candidates struct {
	Pods  []*v1.Pod
	Use   map[types.UID]PodUse
	Disks Disks
}

// Rank orders Pods as they have to go for a signal, the first first; equal ones stay in the order
// they come in. Pods of which a ranking never takes one are left out; critical ones are not.
func Rank(r Ranking, s Signal, c Candidates) []Ranked {
	row, by := rowOf(s), rankingRules[cmp.Or(r, Upstream)]
	if row == nil || by.order == nil {
		return nil
	}
	u := row.pods(c.Disks)
	out := make([]Ranked, 0, len(c.Pods))
	for _, p := range c.Pods {
		x := Ranked{Pod: p, Request: podRequest(p, u.request), Critical: by.critical(p)}
		var figures PodUse
		if figures, x.Measured = c.Use[p.UID]; x.Measured {
			x.Use = u.amount(p, figures)
			x.Exceeds = x.Use.Cmp(x.Request) > 0
			x.Over = x.Use.DeepCopy()
			x.Over.Sub(podRequest(p, u.subtracted))
		}
		if by.candidate == nil || by.candidate(&x) {
			out = append(out, x)
		}
	}
	order := by.order(u)
	slices.SortStableFunc(out, func(a, b Ranked) int {
		for _, by := range order {
			if c := by.compare(&a, &b); c != 0 {
				return c
			}
		}
		return 0
	})
	return out
}

// Order is what a ranking compares Pods by for a signal, in turn; nil for what is no signal.
func Order(r Ranking, s Signal, d Disks) []Criterion {
	row, by := rowOf(s), rankingRules[cmp.Or(r, Upstream)]
	if row == nil || by.order == nil {
		return nil
	}
	return by.order(row.pods(d))
}

// Decides is the criterion of an order that puts one Pod before another; empty when they are equal
// and the younger one goes first.
func Decides(order []Criterion, a, b Ranked) Criterion {
	for _, by := range order {
		if by.compare(&a, &b) != 0 {
			return by
		}
	}
	return ""
}

// compare is negative when a goes before b.
func (c Criterion) compare(a, b *Ranked) int {
	switch c {
	case Exceeding:
		return byExceeding(a, b)
	case Priority:
		return byPriority(a, b)
	case Over:
		return byUsageOverRequest(a, b)
	}
	return byQOS(a, b)
}

// trueFirst orders what is before what is not.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func byExceeding(a, b *Ranked) int {
	if !a.Measured || !b.Measured {
		return trueFirst(!a.Measured, !b.Measured)
	}
	return trueFirst(a.Exceeds, b.Exceeds)
}

func byPriority(a, b *Ranked) int { return cmp.Compare(pod.Priority(a.Pod), pod.Priority(b.Pod)) }

func byUsageOverRequest(a, b *Ranked) int {
	if !a.Measured || !b.Measured {
		return trueFirst(!a.Measured, !b.Measured)
	}
	return b.Over.Cmp(a.Over)
}

func byQOS(a, b *Ranked) int { return cmp.Compare(classRank(a.Pod), classRank(b.Pod)) }

func classRank(p *v1.Pod) int {
	return slices.Index([]v1.PodQOSClass{v1.PodQOSBestEffort, v1.PodQOSBurstable, v1.PodQOSGuaranteed}, pod.QOS(p))
}

// criticalAnnotation marked critical Pods before there were priorities; upstream reads it no more.
const criticalAnnotation = "scheduler.alpha.kubernetes.io/critical-pod"

func isCriticalOrAnnotated(p *v1.Pod) bool {
	_, marked := p.Annotations[criticalAnnotation]
	return marked || pod.IsCritical(p)
}
