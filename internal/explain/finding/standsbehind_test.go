package finding

import "testing"

// What stands behind a selector is asked too: the workload whose Pods a Service, a budget or an
// Ingress needs, also when there are none.
func TestWhatStandsBehindASelector(t *testing.T) {
	const (
		service = `
---
{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {selector: {app: shopfront}}}`
		near = `
---
{apiVersion: v1, kind: Service, metadata: {name: near, namespace: shop}, spec: {selector: {app: shopfornt}}}`
		budget = `
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b, namespace: shop},
  spec: {maxUnavailable: 1, selector: {matchLabels: {app: shopfront}}}}`
		ingress = `
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, namespace: shop},
  spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}}`
	)
	deployment := func(spec, container string) string {
		return `read: Pod Secret EndpointSlice
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: shop, generation: 1, creationTimestamp: '2026-05-01T11:00:00Z'}
spec: {` + spec + `selector: {matchLabels: {app: shopfront}}, template: {metadata: {labels: {app: shopfront}},
  spec: {containers: [{name: a` + container + `}]}}}
status: {observedGeneration: 1}`
	}
	missing := deployment("", ", envFrom: [{secretRef: {name: gone}}]")
	for _, c := range []struct{ cluster, of, want string }{
		{deployment("replicas: 0, ", "") + service, "Service shop s", "ScaledToZero spec.replicas 0 1"},
		{deployment("replicas: 0, ", "") + service + ingress, "Ingress shop i", "ScaledToZero spec.replicas 0 1"},
		{deployment("replicas: 1, paused: true, ", "") + service, "Service shop s", "Paused spec.paused true false"},
		{missing + budget, "PodDisruptionBudget shop b",
			"ReferenceMissing spec.template.spec.containers[0].envFrom[0].secretRef gone -"},
		{missing + service, "Service shop s",
			"ReferenceMissing spec.template.spec.containers[0].envFrom[0].secretRef gone -"},
		{missing + near, "Service shop near",
			"ReferenceMissing spec.template.spec.containers[0].envFrom[0].secretRef gone -"},
		{deployment("replicas: 1, ", "") + service, "Service shop s", "no ScaledToZero"},
	} {
		wantFinding(t, clusterOf(t, c.cluster), c.of, c.want, "")
	}
}

// A variable that a Service would give is none where links are off, and a Pod whose name servers
// are not the cluster's resolves no Service.
func TestWhatAPodSwitchesOff(t *testing.T) {
	pod := func(spec, arg string) string {
		return webPod + "spec: {" + spec + "containers: [{name: a, args: ['" + arg + "']}]}\n---\n" +
			"{apiVersion: v1, kind: Service, metadata: {name: my-db, namespace: shop}, spec: {clusterIP: 10.96.0.9, " +
			"selector: {app: web}, ports: [{port: 80}]}}"
	}
	const dns = "\n---\n{apiVersion: v1, kind: Service, metadata: {name: kube-dns, namespace: kube-system}, spec: " +
		"{clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], ports: [{port: 53}]}}"
	const off = "enableServiceLinks: false, "
	servers := func(s string) string { return "dnsPolicy: None, dnsConfig: {nameservers: [" + s + "]}, " }
	for _, c := range []struct{ cluster, want string }{
		{pod(off, "$(MY_DB_SERVICE_HOST)"), "VariableUndefined spec.enableServiceLinks false true"},
		{pod(off, "$(MY_DB_PORT_80_TCP_ADDR)"), "VariableUndefined spec.enableServiceLinks false true"},
		{pod("", "$(MY_DB_SERVICE_HOST)"), "no VariableUndefined"},
		{pod("enableServiceLinks: true, ", "$(MY_DB_SERVICE_HOST)"), "no VariableUndefined"},
		{pod(off, "$(OTHER_SERVICE_HOST)"), "no VariableUndefined"},
		{pod(servers("9.9.9.9"), "http://my-db/"), "NodeNames spec.dnsPolicy None ClusterFirst"},
		{pod(servers("10.1.2.3"), "http://my-db/") + dns, "NodeNames spec.dnsPolicy None ClusterFirst"},
		{pod(servers("10.96.0.10"), "http://my-db/") + dns, "no NodeNames"},
		{pod(servers("9.9.9.9, 10.96.0.10"), "http://my-db/") + dns, "no NodeNames"},
		{pod(servers("169.254.20.10"), "http://my-db/") + dns, "no NodeNames"},
		{pod(servers("10.96.0.9"), "http://my-db/") + dns, "no NodeNames"},
		{pod(servers("10.1.2.3"), "http://my-db/"), "no NodeNames"},
		{pod(servers("9.9.9.9"), "http://example.com/"), "no NodeNames"},
	} {
		wantFinding(t, clusterOf(t, c.cluster), "Pod shop web", c.want, "")
	}
}
