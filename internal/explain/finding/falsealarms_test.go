package finding

import (
	"slices"
	"strings"
	"testing"
)

// Pairs of things that look alike: of the first kind nothing is said with the code, of the second
// it is.
func TestNoFalseAlarms(t *testing.T) {
	node := func(name, more string) string {
		return "\n---\n{apiVersion: v1, kind: Node, metadata: {name: " + name + ", labels: {kubernetes.io/hostname: " +
			name + "}}" + more + "}"
	}
	cordoned := ", spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}"
	notReady := ", spec: {taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule}]}, " +
		"status: {conditions: [{type: Ready, status: 'False'}]}"
	spread := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: shop}, spec: {replicas: 2, ` +
		`selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: ` +
		`[{name: a}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: ` +
		`kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}}}}}` + "\n---\n"
	on := func(name string) string {
		return strings.Replace(webPod, "name: web,", "name: web-"+name+",", 1) + "spec: {nodeName: " + name +
			", containers: [{name: a}]}"
	}
	owned := func(version, kind string) string {
		return strings.Replace(webPod, "labels:", "ownerReferences: [{apiVersion: "+version+", kind: "+kind+
			", name: train, uid: u}], labels:", 1) + "spec: {containers: [{name: a}]}"
	}
	policy := func(port string) string {
		return webPod + "spec: {containers: [{name: a, ports: [{name: http, containerPort: 8080}]}]}\n---\n" +
			`{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {selector: {app: web}, ` +
			"ports: [{port: 80, targetPort: 8080}]}}\n---\n" +
			`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: shop}, spec: ` +
			`{podSelector: {}, ingress: [{ports: [{port: ` + port + `}]}]}}`
	}
	script := func(mode string) string {
		return webPod + `spec: {containers: [{name: a, command: [/s/run.sh], volumeMounts: ` +
			`[{name: v, mountPath: /s}]}], volumes: [{name: v, configMap: {name: m, items: ` +
			`[{key: run, path: run.sh, mode: ` + mode + `}, ` +
			`{key: conf, path: conf, mode: 0644}]}}]}` + "\n---\n" +
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: shop}, data: {run: x, conf: y}}`
	}
	variable := func(args string) string {
		return webPod + "spec: {containers: [{name: a, env: [{name: HOST_NAME, value: x}], args: " + args + "}]}"
	}
	late := func(probe string) string {
		return webPod + "spec: {containers: [{name: a, readinessProbe: {httpGet: {port: 80}, " + probe + "}}]}"
	}
	local := func(health string, n string) string {
		return webPod + "spec: {nodeName: n1, containers: [{name: a}]}\n" +
			"status: {conditions: [{type: Ready, status: 'True'}]}\n---\n" +
			`{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {type: LoadBalancer, ` +
			`externalTrafficPolicy: Local, ` + health + `selector: {app: web}, ports: [{port: 80}]}}` +
			node("n1", "") + n
	}
	volume := func(policy string) string {
		return `{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: ` +
			`{persistentVolumeReclaimPolicy: ` + policy +
			`, claimRef: {namespace: shop, name: c}}, status: {phase: Released}}`
	}
	memory := func(limit string) string {
		return webPod + "spec: {containers: [{name: a, resources: {limits: {memory: " + limit + "}}}]}"
	}
	tolerating := func(t string) string {
		return webPod + "spec: {containers: [{name: a}], tolerations: [" + t + "]}"
	}
	for _, c := range []struct{ code, of, quiet, told string }{
		{"TooFewPlaces", "Deployment shop d", spread + on("n1") + "\n---\n" + on("n2") + node("n1", "") +
			node("n2", cordoned), spread + on("n1") + node("n1", "") + node("n2", cordoned)},
		{"TolerationDiffers", "Pod shop web",
			tolerating("{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute}") +
				node("n1", notReady),
			tolerating("{key: team, value: a}") +
				node("n1", ", spec: {taints: [{key: team, value: b, effect: NoSchedule}]}")},
		{"OwnerMissing", "Pod shop web", "read: Job\n" + owned("batch.volcano.sh/v1alpha1", "Job"),
			"read: Job\n" + owned("batch/v1", "Job")},
		{"OwnerMissing", "Pod shop web", "read: StatefulSet\n" + owned("apps.kruise.io/v1", "StatefulSet"),
			"read: StatefulSet\n" + owned("apps/v1", "StatefulSet")},
		{"PolicyDeniesPort", "Service shop s", policy("http"), policy("9090")},
		{"NotExecutable", "Pod shop web", script("0755"), script("0644")},
		{"VariableUndefined", "Pod shop web", variable("[sh, -c, 'echo $(hostname) $(date)']"),
			variable("[sh, -c, 'echo $(HOSTNAME)']")},
		{"ProbeLate", "Pod shop web", late("periodSeconds: 600"), late("initialDelaySeconds: 600, periodSeconds: 10")},
		{"ProbeLate", "Pod shop web", late("periodSeconds: 119, successThreshold: 2"),
			late("periodSeconds: 120, successThreshold: 2")},
		{"NoLocalEndpoints", "Service shop s", local("healthCheckNodePort: 30001, ", node("n2", "")),
			local("", node("n2", ""))},
		{"NoLocalEndpoints", "Service shop s", local("", node("n2", notReady)), local("", node("n2", cordoned))},
		{"VolumeReleased", "PersistentVolume - v", volume("Delete"), volume("Retain")},
		{"QuantityTiny", "Pod shop web", memory("2Mi"), memory("100m")},
	} {
		for text, want := range map[string]bool{c.quiet: false, c.told: true} {
			kind, rest, _ := strings.Cut(c.of, " ")
			ns, name, _ := strings.Cut(rest, " ")
			got := Of(clusterOf(t, text), Object{kind, strings.Trim(ns, "-"), name})
			if slices.ContainsFunc(got, func(f Finding) bool { return f.Code == c.code }) != want {
				t.Errorf("%s of %s: got %+v, want it said: %t\n%s", c.code, c.of, got, want, text)
			}
		}
	}
}

// Roles of Kubernetes itself, and rules about groups that an add-on may bring, are no mistake.
func TestRulesAboutAddOns(t *testing.T) {
	for text, want := range map[string]bool{
		`labels: {kubernetes.io/bootstrapping: rbac-defaults}}, rules: [{apiGroups: [extensions], resources: ` +
			`[deployments], verbs: [get]}]`: false,
		`labels: {}}, rules: [{apiGroups: [metrics.k8s.io], resources: [pods], verbs: [get]}]`: false,
		`labels: {}}, rules: [{apiGroups: [""], resources: [deployments], verbs: [get]}]`:      true,
		`labels: {}}, rules: [{apiGroups: [app], resources: [deployments], verbs: [get]}]`:     true,
	} {
		c := clusterOf(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r, `+text+"}")
		c.Served = Served{"": {"pods"}, "apps": {"deployments"}}
		got := Of(c, Object{Kind: "ClusterRole", Name: "r"})
		if slices.ContainsFunc(got, func(f Finding) bool { return f.Code == "GroupDiffers" }) != want {
			t.Errorf("%s: got %+v, want the group blamed: %t", text, got, want)
		}
	}
}
