package proxy

import (
	"strings"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// observeNetworkProgramming observes network_programming_duration_seconds in each IP family in
// which the Service has or had rules.
func (p *Proxier) observeNetworkProgramming(before, after [][]rules.ServicePort, took time.Duration) {
	some := func(of [][]rules.ServicePort, i int) bool { return i < len(of) && len(of[i]) > 0 }
	for i, t := range p.o.Tables {
		if some(before, i) || some(after, i) {
			p.metrics.programming.WithLabelValues(familyLabel(t.Settings.Family)).Observe(took.Seconds())
		}
	}
}

// reportChanges observes metrics for applied changes and journals endpoints that were added or
// removed. was holds the Services' ports before the sync. Changes of the first sync are not
// reported: the endpoints existed before the proxy started.
func (p *Proxier) reportChanges(dirty map[string]change, was map[string][][]rules.ServicePort, first bool) {
	now := time.Now()
	for key, c := range dirty {
		if c.since.IsZero() || first || key == "" {
			continue
		}
		took := now.Sub(c.since)
		p.metrics.sliceToRules.Observe(took.Seconds())
		for _, t := range c.triggers {
			p.observeNetworkProgramming(was[key], p.ports[key], now.Sub(t))
		}
		before, after := endpoints(was[key]), endpoints(p.ports[key])
		came, left := 0, 0
		for id, e := range after {
			if _, had := before[id]; !had {
				came++
				p.recordEndpoint(key, e, journal.TrafficBegins{Service: key, Endpoint: e.Addr().String(),
					Took: journal.Took(took)})
			}
		}
		for id, e := range before {
			if _, has := after[id]; !has {
				left++
				p.recordEndpoint(key, e, journal.TrafficEnds{Service: key, Endpoint: e.Addr().String(),
					Took: journal.Took(took)})
			}
		}
		if came+left > 0 {
			namespace, name, _ := strings.Cut(key, "/")
			p.o.Journal.Put(journal.Ref{Kind: "Service", Namespace: namespace, Name: name},
				journal.RulesChanged{Endpoints: len(after), Added: came, Removed: left, Took: journal.Took(took)})
		}
	}
}

func (p *Proxier) recordEndpoint(service string, e rules.Endpoint, f journal.Fact) {
	if e.Pod == "" {
		return
	}
	namespace, _, _ := strings.Cut(service, "/")
	p.o.Journal.Put(journal.Ref{Namespace: namespace, Name: e.Pod, UID: e.UID}, f)
}

// endpoints returns the endpoints that get traffic through any port, by endpointKey.
func endpoints(tables [][]rules.ServicePort) map[string]rules.Endpoint {
	out := map[string]rules.Endpoint{}
	for _, ports := range tables {
		for _, port := range ports {
			for _, e := range port.ClusterEndpoints {
				out[endpointKey(e)] = e
			}
			for _, e := range port.LocalEndpoints {
				out[endpointKey(e)] = e
			}
		}
	}
	return out
}
