package plugins_test

import (
	"fmt"
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/podtopologyspread"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// spreadCluster is what the definition of topology spread is read from, in full each time.
type spreadCluster struct {
	nodes []*v1.Node
	pods  []*v1.Pod
}

// TestPodTopologySpreadByDefinition: a Pod is refused and scored as the definition says, on the
// plain path and from sums that followed the Pods one by one.
//
// row: FIL-19, FIL-20, FIL-22, SCO-09
func TestPodTopologySpreadByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		oneOf := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
		var c spreadCluster
		for i := range rapid.IntRange(2, 6).Draw(t, "nodes") {
			n := newNode(fmt.Sprint("n", i))
			if z := oneOf("zone", "-", "", "1", "2"); z != "-" {
				n.Labels["zone"] = z
			}
			c.nodes = append(c.nodes, n)
		}
		p := newPod("p", withPodLabels("app="+oneOf("app", "web", "db")))
		for range rapid.IntRange(1, 3).Draw(t, "constraints") {
			spread(rapid.Int32Range(1, 2).Draw(t, "skew"), oneOf("key", "zone", v1.LabelHostname),
				v1.UnsatisfiableConstraintAction(oneOf("action", string(v1.DoNotSchedule), string(v1.ScheduleAnyway))),
				func(c *v1.TopologySpreadConstraint) {
					if n := rapid.Int32Range(0, 3).Draw(t, "domains"); n > 0 &&
						c.WhenUnsatisfiable == v1.DoNotSchedule {
						c.MinDomains = &n
					}
				})(p)
		}
		cluster := snapshot.NewCache()
		for _, n := range c.nodes {
			cluster.SetNode(n)
		}
		pl, cache := podtopologyspread.New(nil, nil), &schedule.EquivalenceCache{}
		plugins := schedule.NewPluginSet("", schedule.WeightedPlugin{Plugin: pl})
		for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
			other := newPod(fmt.Sprint("q", i), withPodLabels("app="+oneOf("app", "web", "db")))
			other.Spec.NodeName = c.nodes[rapid.IntRange(0, len(c.nodes)-1).Draw(t, "on")].Name
			c.pods = append(c.pods, other)
			cluster.SetPod(other)
			if rapid.Bool().Draw(t, "look") {
				in := schedule.Input{Pod: p, Snapshot: cluster.UpdateSnapshot(), Plugins: plugins}
				c.check(t, p, schedule.SchedulePod(t.Context(), in))
				in.Cache = cache
				c.check(t, p, schedule.SchedulePod(t.Context(), in))
			}
		}
	})
}

func (c spreadCluster) check(t *rapid.T, p *v1.Pod, r *schedule.Result) {
	feasible := []*v1.Node{}
	for _, n := range c.nodes {
		want := c.fits(p, n)
		if want {
			feasible = append(feasible, n)
		}
		if got := statusText(r, n.Name) == "fits"; got != want {
			t.Fatalf("%s fits: got %v, want %v", n.Name, got, want)
		}
	}
	for _, s := range r.Scores(len(c.nodes)) {
		for _, part := range s.Parts {
			if want := c.score(p, s.Node, feasible); part.Raw != want {
				t.Fatalf("score of %s: got %d, want %d", s.Node, part.Raw, want)
			}
		}
	}
}

// keys are the topology keys of the constraints with an action.
func keys(p *v1.Pod, action v1.UnsatisfiableConstraintAction) (out []string) {
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == action {
			out = append(out, c.TopologyKey)
		}
	}
	return out
}

func hasKeys(n *v1.Node, keys []string) bool {
	return sets.KeySet(n.Labels).HasAll(keys...)
}

// matching counts the Pods that a constraint selects on nodes that have all keys, by domain.
func (c spreadCluster) matching(one *v1.TopologySpreadConstraint, keys []string) map[string]int {
	selector := labels.SelectorFromSet(one.LabelSelector.MatchLabels)
	out := map[string]int{}
	for _, n := range c.nodes {
		if !hasKeys(n, keys) {
			continue
		}
		out[n.Labels[one.TopologyKey]] += 0
		for _, q := range c.pods {
			if q.Spec.NodeName == n.Name && selector.Matches(labels.Set(q.Labels)) {
				out[n.Labels[one.TopologyKey]]++
			}
		}
	}
	return out
}

func (c spreadCluster) fits(p *v1.Pod, n *v1.Node) bool {
	hard := keys(p, v1.DoNotSchedule)
	for i := range p.Spec.TopologySpreadConstraints {
		one := &p.Spec.TopologySpreadConstraints[i]
		if one.WhenUnsatisfiable != v1.DoNotSchedule {
			continue
		}
		if !hasKeys(n, []string{one.TopologyKey}) {
			return false
		}
		byDomain := c.matching(one, hard)
		least := math.MaxInt
		for _, n := range byDomain {
			least = min(least, n)
		}
		if len(byDomain) == 0 || one.MinDomains != nil && len(byDomain) < int(*one.MinDomains) {
			least = 0
		}
		there := byDomain[n.Labels[one.TopologyKey]]
		if labels.SelectorFromSet(one.LabelSelector.MatchLabels).Matches(labels.Set(p.Labels)) {
			there++
		}
		if there-least > int(one.MaxSkew) {
			return false
		}
	}
	return true
}

func (c spreadCluster) score(p *v1.Pod, node string, feasible []*v1.Node) int64 {
	soft := keys(p, v1.ScheduleAnyway)
	var sum float64
	for i := range p.Spec.TopologySpreadConstraints {
		one := &p.Spec.TopologySpreadConstraints[i]
		if one.WhenUnsatisfiable != v1.ScheduleAnyway {
			continue
		}
		domains, value := sets.Set[string]{}, ""
		for _, n := range feasible {
			if n.Name == node && !hasKeys(n, soft) {
				return 0
			}
			if n.Name == node {
				value = n.Labels[one.TopologyKey]
			}
			if hasKeys(n, soft) {
				domains.Insert(n.Labels[one.TopologyKey])
			}
		}
		sum += float64(c.matching(one, soft)[value])*math.Log(float64(len(domains)+2)) + float64(one.MaxSkew-1)
	}
	return int64(math.Round(sum))
}
