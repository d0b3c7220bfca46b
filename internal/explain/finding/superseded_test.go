package finding

import (
	"fmt"
	"slices"
	"testing"
)

// A mended Deployment is not told of the template before, which a ReplicaSet without Pods keeps;
// one that has Pods yet, and one of nobody, still count.
//
// row: RST-10
func TestOlderTemplatesWithoutPodsDoNotCount(t *testing.T) {
	const owner = `ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: d, uid: d, controller: true}]`
	for name, c := range map[string]struct {
		owners, replicas, status string
		want                     bool
	}{
		"scaled to zero": {owner, "0", "0", false},
		"has Pods yet":   {owner, "0", "1", true},
		"is wanted":      {owner, "1", "0", true},
		"of nobody":      {"labels: {}", "0", "0", true},
	} {
		cluster := clusterOf(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, `+
			`namespace: shop, uid: d}, spec: {template: {spec: {containers: [{name: a}]}}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: d-1, namespace: shop, %s}, spec: {replicas: %s, `+
			`template: {spec: {containers: [{name: a, ports: [{containerPort: 80}], readinessProbe: {tcpSocket: {`+
			`port: 81}}}]}}}, status: {replicas: %s}}`, c.owners, c.replicas, c.status))
		d := Object{"Deployment", "shop", "d"}
		for from, list := range map[string][]Finding{"all": All(cluster, "shop"),
			"the Deployment": Of(cluster, d),
			"what names it":  cluster.inside(cluster.Get(d), d)} {
			if from != "all" && name == "of nobody" {
				continue
			}
			got := slices.ContainsFunc(list, func(f Finding) bool { return f.Code == "ProbePortUndeclared" })
			if got != c.want {
				t.Errorf("%s, of %s: got %+v, want the probe told %v", name, from, list, c.want)
			}
		}
	}
}
