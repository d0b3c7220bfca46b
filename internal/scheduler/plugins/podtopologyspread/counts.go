package podtopologyspread

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// countsPod tells whether a Pod on a node counts for the constraint of a Pod of the namespace: Pods
// that are being deleted and Pods of other namespaces do not, and an empty selector matches none.
func (c *constraint) countsPod(other *v1.Pod, namespace string) bool {
	return other.DeletionTimestamp == nil && other.Namespace == namespace && !c.selector.Empty() &&
		c.selector.Matches(labels.Set(other.Labels))
}

// count returns how many of the Pods count.
func (c *constraint) count(pods []framework.PodInfo, namespace string) int {
	n := 0
	for _, other := range pods {
		if c.countsPod(other.GetPod(), namespace) {
			n++
		}
	}
	return n
}

// domainCounts are the matching Pods of each domain of one constraint, and the least of any.
type domainCounts struct {
	pods           map[string]int
	domainsByCount map[int]int // number of domains by their count
	minMatch       int         // 0 without domains
}

func newDomainCounts() domainCounts {
	return domainCounts{pods: map[string]int{}, domainsByCount: map[int]int{}}
}

func (d *domainCounts) clone() domainCounts {
	return domainCounts{pods: maps.Clone(d.pods), domainsByCount: maps.Clone(d.domainsByCount), minMatch: d.minMatch}
}

// set gives a domain so many matching Pods; one that was not known enters.
func (d *domainCounts) set(domain string, n int) {
	was, known := d.pods[domain]
	if known && was == n {
		return
	}
	d.pods[domain] = n
	d.domainsByCount[n]++
	if known {
		d.forget(was)
	}
	if n < d.minMatch || len(d.pods) == 1 {
		d.minMatch = n
	} else if known {
		d.updateMinMatch(was)
	}
}

// remove takes a domain out, if it is known.
func (d *domainCounts) remove(domain string) {
	if was, known := d.pods[domain]; known {
		delete(d.pods, domain)
		d.forget(was)
		d.updateMinMatch(was)
	}
}

func (d *domainCounts) forget(was int) {
	if d.domainsByCount[was]--; d.domainsByCount[was] == 0 {
		delete(d.domainsByCount, was)
	}
}

// updateMinMatch finds the least count anew if it was that of a domain that has another now.
func (d *domainCounts) updateMinMatch(was int) {
	if was != d.minMatch || d.domainsByCount[was] > 0 {
		return
	}
	d.minMatch = 0
	for n := range d.domainsByCount {
		if d.domainsByCount[d.minMatch] == 0 || n < d.minMatch {
			d.minMatch = n
		}
	}
}

// globalMinimum is the least count of any domain, 0 when there are fewer than the constraint asks
// for.
func (d *domainCounts) globalMinimum(c *constraint) int {
	if len(d.pods) < int(c.minDomains) {
		return 0
	}
	return d.minMatch
}

// skewOfEmptyDomain is the skew that a domain without matching Pods would have with the Pod in it:
// the Pod itself if it matches, less the least of any domain. Each matching Pod there adds 1.
func (d *domainCounts) skewOfEmptyDomain(c *constraint, p *v1.Pod) int {
	skew := -d.globalMinimum(c)
	if c.selector.Matches(labels.Set(p.Labels)) {
		skew++
	}
	return skew
}

// constraintCounts are the matching Pods and the nodes by domain of one constraint.
type constraintCounts struct {
	constraint
	labels        *columns.Labels
	podsByDomain  []int // matching Pods, by number of the value
	nodesByDomain []int
	domainCounts  // of domains that have nodes; empty for constraints that only score
}

// update changes how many nodes and matching Pods a domain has.
func (c *constraintCounts) update(id int32, nodes, pods int) {
	for int(id) >= len(c.podsByDomain) {
		c.podsByDomain, c.nodesByDomain = append(c.podsByDomain, 0), append(c.nodesByDomain, 0)
	}
	c.nodesByDomain[id] += nodes
	c.podsByDomain[id] += pods
	switch {
	case c.pods == nil:
	case c.nodesByDomain[id] > 0:
		c.set(c.labels.Values[id], c.podsByDomain[id])
	default:
		c.remove(c.labels.Values[id])
	}
}

// podsIn returns the matching Pods of a domain.
func (c *constraintCounts) podsIn(id int32) int {
	if int(id) < len(c.podsByDomain) {
		return c.podsByDomain[id]
	}
	return 0
}

// scoringDomain is the number of the node's domain for scoring: 0 for none, which is also that of
// an empty value.
func (c *constraintCounts) scoringDomain(node *v1.Node) int32 {
	value := node.Labels[c.key]
	if value == "" {
		return 0
	}
	return c.labels.Number(value)
}

// scoringDomainOfRow is the same of a row, and whether the node has the key at all.
func (c *constraintCounts) scoringDomainOfRow(row int32) (id int32, has bool) {
	id = c.labels.Numbers[row]
	if id != 0 && c.labels.Values[id] == "" {
		return 0, true
	}
	return id, id != 0
}
