package finding

import (
	"slices"
	"strings"
	"testing"
)

// Each row is a cluster, an object, and a finding of it: "CODE FIELD VALUE", or "no CODE".
func expectFindings(t *testing.T, rows []struct{ cluster, of, want string }) {
	t.Helper()
	for _, c := range rows {
		parts := strings.Fields(c.of)
		got := Of(clusterOf(t, c.cluster), Object{parts[0], strings.TrimPrefix(parts[1], "-"), parts[2]})
		var have []string
		for _, f := range got {
			have = append(have, f.Code+" "+f.Field+" "+f.Value)
		}
		if code, none := strings.CutPrefix(c.want, "no "); none {
			if slices.ContainsFunc(got, func(f Finding) bool { return f.Code == code }) {
				t.Errorf("%s: got\n  %s\nwant %s of\n%s", c.of, strings.Join(have, "\n  "), c.want, c.cluster)
			}
		} else if !slices.Contains(have, c.want) {
			t.Errorf("%s: got\n  %s\nwant\n  %s of\n%s", c.of, strings.Join(have, "\n  "), c.want, c.cluster)
		}
	}
}

// A Pod that must be beside others without a node is told so, with what those wait for; beside one
// that has a node, or where it is of the kind itself, it is not.
func TestWhoWaitsBesideWhomIsFollowed(t *testing.T) {
	pod := func(name, beside, more string) string {
		affinity := ""
		if beside != "" {
			affinity = ", affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: " +
				"kubernetes.io/hostname, labelSelector: {matchLabels: {app: " + beside + "}}}]}}"
		}
		return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: shop, labels: {app: " + name +
			"}}, spec: {containers: [{name: a}]" + affinity + more + "}}\n---\n"
	}
	const at = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector "
	node := "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}, status: " +
		"{allocatable: {cpu: 4, pods: 9}}}\n---\n"
	large := ", nodeSelector: {zone: b}"
	expectFindings(t, []struct{ cluster, of, want string }{
		{node + pod("web", "db", "") + pod("db", "", large), "Pod shop web", "BesideUnplaced " + at + "app=db"},
		{node + pod("web", "db", "") + pod("db", "", large), "Pod shop web",
			"NodeLabelMissing spec.nodeSelector zone=b"},
		{node + pod("web", "mid", "") + pod("mid", "db", "") + pod("db", "", large), "Pod shop web",
			"NodeLabelMissing spec.nodeSelector zone=b"},
		{node + pod("web", "db", "") + pod("db", "web", ""), "Pod shop web", "BesideUnplaced " + at + "app=db"},
		{node + pod("web", "db", "") + pod("db", "", ", nodeName: n1"), "Pod shop web", "no BesideUnplaced"},
		{node + pod("web", "web", "") + strings.Replace(pod("web2", "web", ""), "app: web2", "app: web", 1),
			"Pod shop web", "no BesideUnplaced"},
		{node + pod("web", "", "") + pod("db", "", large), "Pod shop web", "no BesideUnplaced"},
	})
	c := clusterOf(t, pod("web", "db", "")+pod("db", "mid", "")+pod("mid", "web", ""))
	for _, f := range Of(c, Object{"Pod", "shop", "web"}) {
		if f.Code == "BesideUnplaced" && f.Object.Name == "web" && (f.Severity != Broken ||
			!strings.Contains(f.Message, "web waits for db waits for mid waits for web")) {
			t.Errorf("of a circle: got %+v, want it broken and named whole", f)
		}
	}
}

// A container of a Job's Pod that runs on after another has ended is told of; one among the init
// containers, one of a Deployment's Pod, and one that has just been left alone is not.
func TestAContainerThatKeepsAJobRunningIsNamed(t *testing.T) {
	cluster := func(owner, finished, code, server, policy string) string {
		status := "status: {phase: Running, containerStatuses: [{name: work, state: {terminated: {exitCode: " + code +
			`, finishedAt: "` + finished + `"}}}, {name: proxy, state: {running: {}}}]}`
		spec := "{restartPolicy: " + policy + ", containers: [{name: work}, {name: proxy" + server + "}]}"
		return "{apiVersion: batch/v1, kind: " + owner + ", metadata: {name: train, namespace: shop, uid: u}, spec: " +
			"{template: {spec: " + spec + "}}}\n---\n" + strings.Replace(webPod, "labels:", "ownerReferences: "+
			"[{apiVersion: batch/v1, kind: "+owner+", name: train, uid: u, controller: true}], labels:", 1) +
			"spec: " + spec + "\n" + status
	}
	const ports, long, short = ", ports: [{containerPort: 80}]", "2026-05-01T11:59:00Z", "2026-05-01T11:59:45Z"
	const told = "JobKeptRunning spec.template.spec.containers[1] proxy"
	expectFindings(t, []struct{ cluster, of, want string }{
		{cluster("Job", long, "0", "", "Never"), "Job shop train", told},
		{cluster("Job", long, "0", "", "Never"), "Pod shop web", told},
		{cluster("Job", long, "3", "", "Never"), "Job shop train", told},
		{cluster("Job", short, "0", ports, "OnFailure"), "Job shop train", told},
		{cluster("Job", short, "0", "", "Never"), "Job shop train", "no JobKeptRunning"},
		{cluster("Job", long, "3", "", "OnFailure"), "Job shop train", "no JobKeptRunning"},
		{strings.ReplaceAll(cluster("Job", long, "0", "", "Never"), "[{name: work}, {name: proxy}]",
			"[{name: work}], initContainers: [{name: proxy, restartPolicy: Always}]"), "Job shop train",
			"no JobKeptRunning"},
		{strings.ReplaceAll(cluster("ReplicaSet", long, "0", "", "Always"), "batch/v1", "apps/v1"), "Pod shop web",
			"no JobKeptRunning"},
	})
	for _, f := range Of(clusterOf(t, cluster("Job", long, "0", "", "Never")), Object{"Job", "shop", "train"}) {
		if f.Code == "JobKeptRunning" && (len(f.Remedies) == 0 || len(f.Remedies[0].Run) == 0) {
			t.Errorf("got %+v, want a command that makes it a sidecar", f)
		}
	}
}

// What objects of further kinds name and is not there is told of: by their kind, and of groups that
// are not Kubernetes' by kind and name or by the names of their fields. What they are made for is
// not, nor what is optional or there.
func TestReferencesOfFurtherKindsAreFollowed(t *testing.T) {
	const flow = "{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {name: f}, spec: " +
		"{priorityLevelConfiguration: {name: lwo}, rules: [{subjects: [{kind: ServiceAccount, serviceAccount: " +
		"{namespace: shop, name: bot}}], resourceRules: [{verbs: [get], apiGroups: [''], resources: [pods], " +
		"namespaces: [shpo]}]}]}}\n---\n{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: " +
		"PriorityLevelConfiguration, metadata: {name: low}}\n---\n" +
		"{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"
	custom := func(spec string) string {
		return "read: Secret ConfigMap Service ServiceAccount StorageClass\n{apiVersion: example.com/v1, kind: " +
			"Backup, metadata: {name: b, namespace: shop}, spec: " + spec + "}\n---\n" +
			"{apiVersion: v1, kind: Secret, metadata: {name: there, namespace: shop}, data: {key: ''}}"
	}
	expectFindings(t, []struct{ cluster, of, want string }{
		{"read: ServiceAccount\n" + flow, "FlowSchema - f",
			"ReferenceMissing spec.priorityLevelConfiguration.name lwo"},
		{"read: ServiceAccount\n" + flow, "FlowSchema - f",
			"ReferenceMissing spec.rules[0].subjects[0].serviceAccount.name bot"},
		{flow, "FlowSchema - f", "ReferenceMissing spec.rules[0].resourceRules[0].namespaces[0] shpo"},
		{strings.NewReplacer("lwo", "low", "shpo", "shop").Replace(flow), "FlowSchema - f", "no ReferenceMissing"},
		{"read: ConfigMap\n{apiVersion: v1, kind: ReplicationController, metadata: {name: r, namespace: shop}, spec: " +
			"{template: {spec: {containers: [{name: a, envFrom: [{configMapRef: {name: gone}}]}]}}}}",
			"ReplicationController shop r",
			"ReferenceMissing spec.template.spec.containers[0].envFrom[0].configMapRef gone"},
		{"read: StorageClass\n{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: c, " +
			"namespace: shop}, storageClassName: gone}", "CSIStorageCapacity shop c",
			"ReferenceMissing storageClassName gone"},

		{custom("{target: {secretRef: {name: ther}}}"), "Backup shop b", "ReferenceMissing spec.target.secretRef ther"},
		{custom("{target: {secretKeyRef: {name: there, key: kye}}}"), "Backup shop b",
			"KeyMissing spec.target.secretKeyRef kye"},
		{custom("{from: {kind: Service, name: gone, port: 80}}"), "Backup shop b",
			"ReferenceMissing spec.from.name gone"},
		{custom("{rules: [{backendRefs: [{name: gone}]}]}"), "Backup shop b",
			"ReferenceMissing spec.rules[0].backendRefs[0].name gone"},
		{custom("{serviceAccountName: gone}"), "Backup shop b", "ReferenceMissing spec.serviceAccountName gone"},
		{custom("{storageClassName: gone}"), "Backup shop b", "ReferenceMissing spec.storageClassName gone"},

		{custom("{target: {secretRef: {name: there}}}"), "Backup shop b", "no ReferenceMissing"},
		{custom("{target: {secretRef: {name: gone, optional: true}}}"), "Backup shop b", "no ReferenceMissing"},
		{custom("{secretName: made-by-it, name: x, kind: y}"), "Backup shop b", "no ReferenceMissing"},
		{custom("{of: {kind: Service, group: example.com, name: gone}}"), "Backup shop b", "no ReferenceMissing"},
		{custom("{of: {kind: Machine, name: gone}}"), "Backup shop b", "no ReferenceMissing"},
	})
}

// A role's create with names is of no use, unless another rule allows it without; what an event
// says of a DaemonSet that was refused Pods is over when it has them; and what a level of Pod
// Security demands is set at once, for each container that it names.
func TestWhatWasRepairedIsNotNamedAgain(t *testing.T) {
	role := func(more string) string {
		return "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r, namespace: shop}, rules: " +
			"[{apiGroups: [''], resources: [configmaps], resourceNames: [a], verbs: [create, get]}" + more + "]}"
	}
	const rule = ", {apiGroups: [''], resources: [configmaps], verbs: [create]}"
	daemons := func(current, words string) string {
		return "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d, namespace: shop}, spec: {template: {spec: " +
			"{containers: [{name: a}, {name: b}]}}}, status: {desiredNumberScheduled: 2, currentNumberScheduled: " +
			current + "}}\n---\n{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, type: Warning, " +
			"reason: FailedCreate, lastTimestamp: \"2026-05-01T11:59:50Z\", involvedObject: {kind: DaemonSet, " +
			"namespace: shop, name: d}, message: '" + words + "'}"
	}
	const quota = "pods d-1 is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"
	const level = `pods is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false ` +
		`(containers "a", "b" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities ` +
		`(container "b" must set securityContext.capabilities.drop=["ALL"])`
	expectFindings(t, []struct{ cluster, of, want string }{
		{role(""), "Role shop r", "NameNotAsked rules[0].verbs[0] create"},
		{role(rule), "Role shop r", "no NameNotAsked"},
		{role(strings.Replace(rule, "configmaps", "secrets", 1)), "Role shop r",
			"NameNotAsked rules[0].verbs[0] create"},
		{role(strings.Replace(rule, "verbs", "resourceNames: [b], verbs", 1)), "Role shop r",
			"NameNotAsked rules[0].verbs[0] create"},
		{daemons("1", quota), "DaemonSet shop d", "PodsRefused spec.template FailedCreate"},
		{daemons("2", quota), "DaemonSet shop d", "no PodsRefused"},
	})
	found := 0
	for _, f := range Of(clusterOf(t, daemons("0", level)), Object{"DaemonSet", "shop", "d"}) {
		if f.Code != "PodSecurityViolated" || f.Object.Kind == "Namespace" {
			continue
		}
		found++
		const want = `[{"name":"a","securityContext":{"allowPrivilegeEscalation":false}},{"name":"b",` +
			`"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]`
		if len(f.Remedies) != 1 || !strings.Contains(strings.Join(f.Remedies[0].Run, ""), want) {
			t.Errorf("got %+v, want one remedy with %s", f, want)
		}
	}
	if found != 3 { // one for each container of each demand
		t.Errorf("got %d findings about the level, want 3", found)
	}
}

// A port by name that only some of the Pods have which a Service selects is told of; not while one
// workload's Pods are rolled out, nor where all have it.
func TestAPortThatSomePodsLackIsNamed(t *testing.T) {
	const service = "{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {selector: " +
		"{tier: web}, ports: [{port: 80, targetPort: http}]}}\n---\n"
	deployment := func(name, port string) string {
		return "{apiVersion: apps/v1, kind: Deployment, metadata: {name: " + name + ", namespace: shop}, spec: " +
			"{template: {metadata: {labels: {tier: web}}, spec: {containers: [{name: a, ports: [{name: " + port +
			", containerPort: 80}]}]}}}}\n---\n"
	}
	expectFindings(t, []struct{ cluster, of, want string }{
		{service + deployment("a", "http") + deployment("b", "web"), "Service shop s",
			"PortMissing spec.ports[0].targetPort http"},
		{service + deployment("a", "http") + deployment("b", "http"), "Service shop s", "no PortMissing"},
	})
}
