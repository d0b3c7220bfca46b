package finding

import (
	"slices"
	"strings"
	"testing"
)

const (
	shopNode = `
---
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {kubernetes.io/hostname: n1, zone: a}}, spec: {taints: ` +
		`[{key: team, value: batch, effect: NoSchedule}]}, status: {allocatable: {cpu: "8", pods: "1"}, ` +
		`runtimeHandlers: ` +
		`[{name: runc}]}}`
	shopDeployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: shop, uid: d}, spec: `
	shopApp        = `{name: a, image: i, ports: [{name: http, containerPort: 8080}]}`
)

// Each row is a cluster, an object, and a finding: "CODE FIELD VALUE WANT", - for an empty one; or
// "no CODE".
func TestFurtherRules(t *testing.T) {
	web := webPod + "spec: {containers: [" + shopApp + "]}\n---\n"
	policy := func(spec string) string {
		return web + `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: ` +
			`shop}, spec: ` +
			spec + `}`
	}
	for _, c := range []struct{ cluster, of, want string }{
		{policy(`{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: ` +
			`wbe}}}]}]}`),
			"NetworkPolicy shop p", "SelectsNothing spec.ingress[0].from[0].podSelector app=wbe app=web"},
		{policy(`{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: ` +
			`web}}}]}]}`),
			"NetworkPolicy shop p", "no SelectsNothing"},
		{policy(`{podSelector: {}, ingress: [{ports: [{port: 8080}]}]}`), "NetworkPolicy shop p", "no " +
			"PolicyPortMissing"},
		{policy(`{podSelector: {}, ingress: [{ports: [{port: htp}]}]}`), "NetworkPolicy shop p",
			"PolicyPortMissing spec.ingress[0].ports[0].port htp http"},
		{policy(`{podSelector: {}, policyTypes: [Ingress]}`), "Pod shop web", "PolicyDeniesAll spec.ingress [] -"},
		{policy(`{podSelector: {}, policyTypes: [Egress]}`), "Pod shop web", "no PolicyDeniesAll"},
		{webPod + `spec: {containers: [` + shopApp + `], tolerations: [{key: team, value: btach}]}` + shopNode,
			"Pod shop web", "TolerationDiffers spec.tolerations[0] team=btach team=batch:NoSchedule"},
		{webPod + `spec: {containers: [` + shopApp + `], tolerations: [{key: team, value: batch}]}` + shopNode,
			"Pod shop web", "no TolerationDiffers"},
		{webPod + `spec: {containers: [` + shopApp + `], tolerations: [{key: gpu, value: x}]}` + shopNode,
			"Pod shop web", "no TolerationDiffers"},
		{webPod + `spec: {containers: [` + shopApp + `], affinity: {nodeAffinity: ` +
			`{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, ` +
			`operator: ` +
			`NotIn, values: [a]}]}]}}}}` + shopNode, "Pod shop web",
			"NodeLabelMissing spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution." +
				"nodeSelectorTerms[0].matchExpressions[0] zone_NotIn_a -"},
		{webPod + `spec: {containers: [` + shopApp + `], affinity: {nodeAffinity: ` +
			`{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, ` +
			`operator: ` +
			`In, values: [b]}]}, {matchExpressions: [{key: zone, operator: Exists}]}]}}}}` + shopNode, "Pod shop web",
			"no NodeLabelMissing"},
		{"{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: shop}, spec: {nodeName: n1}}" + shopNode,
			"Node - n1",
			"NodeFull status.allocatable.pods 1 -"},
		{"{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: x}, handler: rnc}" + shopNode,
			"RuntimeClass - x", "HandlerUnknown handler rnc runc"},
		{shopDeployment + `{replicas: 3, selector: {matchLabels: {app: d}}, template: {metadata: {labels: {app: ` +
			`d}}, spec: ` +
			`{tolerations: [{operator: Exists}], affinity: {podAntiAffinity: ` +
			`{requiredDuringSchedulingIgnoredDuringExecution:` +
			` [{topologyKey: zone, labelSelector: {matchLabels: {app: d}}}]}}, containers: []}}}}` + shopNode,
			"Deployment shop d", "TooFewPlaces spec.template.spec.affinity.podAntiAffinity." +
				"requiredDuringSchedulingIgnoredDuringExecution[0] zone 1"},
		{shopDeployment + `{template: {spec: {containers: [{name: a, resources: {limits: {memory: 64}}}]}}}}`,
			"Deployment shop d", "QuantityTiny spec.template.spec.containers[0].resources.limits.memory 64 64Mi"},
		{shopDeployment + `{template: {spec: {containers: [{name: a, resources: {limits: {memory: 64Mi}}}]}}}}`,
			"Deployment shop d", "no QuantityTiny"},
		{shopDeployment + `{template: {spec: {terminationGracePeriodSeconds: 20, containers: [{name: a, lifecycle: ` +
			`{preStop: {sleep: {seconds: 20}}}}]}}}}`, "Deployment shop d",
			"HookTooLong spec.template.spec.containers[0].lifecycle.preStop.sleep.seconds 20 30"},
		{shopDeployment + `{template: {spec: {containers: [{name: a, args: ["$(HSOT) $$(NO) $(A_SERVICE_HOST)"], ` +
			`env: ` +
			`[{name: HOST, value: x}]}]}}}}`, "Deployment shop d",
			"VariableUndefined spec.template.spec.containers[0].args[0] $(HSOT) $(HOST)"},
		{"read: ConfigMap\n{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop, ownerReferences: " +
			"[{kind: " +
			"ConfigMap, name: gone, uid: x}]}}", "Secret shop s", "OwnerMissing metadata.ownerReferences[0] gone -"},
		{"{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: l, namespace: shop}, spec: " +
			"{holderIdentity: h, " +
			`leaseDurationSeconds: 15, renewTime: "2026-05-01T11:59:50.000000Z"}}`, "Lease shop l", "no LeaseExpired"},
		{"{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: l, namespace: shop}, spec: " +
			"{holderIdentity: h, " +
			`leaseDurationSeconds: 15, renewTime: "2026-05-01T11:59:00.000000Z"}}`, "Lease shop l",
			"LeaseExpired spec.renewTime 2026-05-01T11:59:00Z -"},
		{webPod + `spec: {containers: [{name: a, env: []}]}
---
{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, type: Warning, reason: FailedCreate, ` +
			`lastTimestamp: "2026-05-01T11:59:50Z", involvedObject: {kind: Deployment, namespace: shop, name: d}, ` +
			`message: ` +
			`"pods d-1 is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"}
---
` + shopDeployment + `{template: {spec: {containers: [{name: a}]}}}}`, "Deployment shop d",
			"QuotaExceeded spec.hard.pods 2 3"},
		{`{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, type: Warning, reason: FailedCreate, ` +
			`lastTimestamp: "2026-05-01T11:59:50Z", involvedObject: {kind: Deployment, namespace: shop, name: d}, ` +
			`message: ` +
			`'pods is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false ` +
			`(container "a" ` +
			`must set securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true (pod or container "a" ` +
			`must set ` +
			`securityContext.runAsNonRoot=true)'}
---
` + shopDeployment + `{template: {spec: {containers: [{name: a}]}}}}`, "Deployment shop d",
			"PodSecurityViolated spec.template.spec.containers[0].securityContext.runAsNonRoot - true"},
	} {
		kind, rest, _ := strings.Cut(c.of, " ")
		ns, name, _ := strings.Cut(rest, " ")
		got := Of(clusterOf(t, c.cluster), Object{kind, strings.Trim(ns, "-"), name})
		if code, none := strings.CutPrefix(c.want, "no "); none {
			if slices.ContainsFunc(got, func(f Finding) bool { return f.Code == code }) {
				t.Errorf("%s: got %+v, want %s", c.of, got, c.want)
			}
			continue
		}
		var have []string
		for _, f := range got {
			words := []string{f.Code, f.Field, f.Value, f.Want}
			for i, w := range words {
				if words[i] = strings.ReplaceAll(w, " ", "_"); w == "" {
					words[i] = "-"
				}
			}
			have = append(have, strings.Join(words, " "))
		}
		if !slices.Contains(have, c.want) {
			t.Errorf("%s: got\n  %s\nwant\n  %s", c.of, strings.Join(have, "\n  "), c.want)
		}
	}
}
