package finding

import (
	"fmt"
	"strings"
	"testing"
)

// A level that forbids root is met with a user as well, as an image that runs as root could not
// start otherwise; not where the Pod has a user already.
//
// row: RST-10
func TestAUserIsSetBesideRunAsNonRoot(t *testing.T) {
	const escalation = `allowPrivilegeEscalation != false (container "a" must set ` +
		`securityContext.allowPrivilegeEscalation=false), `
	const root = `runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)`
	for name, c := range map[string]struct {
		words, spec string
		want        bool
	}{
		"one demand":      {root, "", true},
		"two demands":     {escalation + root, "", true},
		"the Pod's user":  {root, "securityContext: {runAsUser: 7}, ", false},
		"two, and a user": {escalation + root, "securityContext: {runAsUser: 7}, ", false},
		"another demand":  {escalation + "x", "", false},
	} {
		cluster := clusterOf(t, fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, `+
			`type: Warning, reason: FailedCreate, lastTimestamp: "2026-05-01T11:59:50Z", involvedObject: {`+
			`kind: Deployment, namespace: shop, name: d}, message: 'pods is forbidden: violates PodSecurity "restricted:latest": %s'}
---
`+shopDeployment+`{template: {spec: {%scontainers: [{name: a}]}}}}`, c.words, c.spec))
		var runs []string
		for _, f := range Of(cluster, Object{"Deployment", "shop", "d"}) {
			for _, r := range f.Remedies {
				runs = append(runs, r.Run...)
			}
		}
		if got := strings.Contains(strings.Join(runs, "\n"), `"runAsUser":1000`); got != c.want || len(runs) == 0 {
			t.Errorf("%s: got %q, want a user %v", name, runs, c.want)
		}
	}
}
