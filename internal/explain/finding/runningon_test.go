package finding

import (
	"strings"
	"testing"
)

// Failures that a policy ignores, Pods that finalizers hold, and init containers that do not end
// are named, with their neighbours that are well.
func TestWhatGoesOnForEverIsNamed(t *testing.T) {
	job := func(action, more string) string {
		pod := func(name string) string {
			return "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: shop, " +
				"ownerReferences: [{kind: Job, name: j, uid: j, controller: true}]}, status: {phase: Failed, " +
				"containerStatuses: [{name: a, state: {terminated: {exitCode: 3}}}]}}"
		}
		return "{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: shop, uid: j}, spec: " +
			"{podFailurePolicy: " +
			"{rules: [{action: " + action + ", onExitCodes: " + more + "}]}}}" + pod("p1") + pod("p2")
	}
	held := func(finalizers, template string) string {
		return shopDeployment + "{template: {metadata: {" + template + "}, spec: {containers: [{name: a}]}}}}\n---\n" +
			"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r, namespace: shop, uid: r, ownerReferences: " +
			"[{kind: " +
			"Deployment, name: d, uid: d, controller: true}]}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: p, " +
			"namespace: shop, ownerReferences: [{kind: ReplicaSet, name: r, uid: r, controller: true}], finalizers: [" +
			finalizers + "], deletionTimestamp: \"2026-05-01T11:59:00Z\", deletionGracePeriodSeconds: 30}}"
	}
	initial := func(container, started string) string {
		return webPod + "spec: {initContainers: [{name: i, " + container + "}], containers: [{name: a}]}\nstatus: " +
			"{initContainerStatuses: [{name: i, state: {running: {startedAt: \"" + started + "\"}}}]}"
	}
	const early, late = "2026-05-01T11:59:00Z", "2026-05-01T11:59:55Z"
	const serves = "InitServes spec.initContainers[0].restartPolicy "
	expectFindings(t, []struct{ cluster, of, want string }{
		{job("Ignore", "{operator: In, values: [3]}"), "Job shop j",
			"FailuresIgnored spec.podFailurePolicy.rules[0].action Ignore"},
		{job("Ignore", "{operator: NotIn, values: [4]}"), "Job shop j",
			"FailuresIgnored spec.podFailurePolicy.rules[0].action Ignore"},
		{job("Ignore", "{operator: In, values: [4]}"), "Job shop j", "no FailuresIgnored"},
		{job("Count", "{operator: In, values: [3]}"), "Job shop j", "no FailuresIgnored"},
		{held("example.com/x", ""), "Deployment shop d", "FinalizerHolds metadata.finalizers example.com/x"},
		{held("foregroundDeletion", ""), "Deployment shop d", "no FinalizerHolds"},
		{initial("ports: [{containerPort: 80}]", early), "Pod shop web", serves},
		{initial("ports: [{containerPort: 80}]", late), "Pod shop web", "no InitServes"},
		{initial("restartPolicy: Always, ports: [{containerPort: 80}]", early), "Pod shop web", "no InitServes"},
		{initial("command: [sh, -c, sleep infinity]", early), "Pod shop web", serves},
		{initial("command: [sh, -c, sleep 30]", early), "Pod shop web", "no InitServes"},
	})
	for _, f := range Of(clusterOf(t, held("example.com/x", "finalizers: [example.com/x]")), Object{"Deployment",
		"shop",
		"d"}) {
		if f.Code == "FinalizerHolds" && !strings.Contains(f.Remedies[len(f.Remedies)-1].Run[0],
			"/spec/template/metadata/finalizers") {
			t.Errorf("got %+v, want a remedy for the template", f.Remedies)
		}
	}
}

// Refusals blame the expression that failed, the name that others are made of, and each container
// and volume that a level names.
func TestRefusalsBlameWhatTheyAreMadeOf(t *testing.T) {
	const name = "a-name-of-fifty-eight-characters-which-is-too-long-for-it1"
	refused := func(kind, name, spec, words string) string {
		return "{apiVersion: apps/v1, kind: " + kind + ", metadata: {name: " + name + ", namespace: shop}, spec: " +
			"{replicas: 1, " +
			"template: {spec: " + spec + "}}}\n---\n{apiVersion: v1, kind: Event, metadata: {name: e, namespace: " +
			"shop}, type: " +
			"Warning, reason: FailedCreate, lastTimestamp: \"2026-05-01T11:59:50Z\", involvedObject: {kind: " + kind +
			", namespace: shop, name: " + name + "}, message: '" + strings.ReplaceAll(words, "'", "''") + "'}"
	}
	hook := "\n---\n{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: " +
		"{name: w}, webhooks: [{name: x, matchConditions: [{name: a, expression: \"true\"}, {name: b, expression: " +
		"object.spec.x}]}]}"
	level := func(words string) string {
		return refused("StatefulSet", "s", "{initContainers: [{name: i, ports: [{hostPort: 80}]}], containers: "+
			"[{name: a, ports: [{containerPort: 1}, {hostPort: 81}]}], volumes: [{name: u}, {name: v, hostPath: "+
			"{path: /x}}]}",
			`pods is forbidden: violates PodSecurity "baseline:latest": `+words)
	}
	expectFindings(t, []struct{ cluster, of, want string }{
		{refused("StatefulSet", "s", "{containers: []}", "pods is forbidden: expression 'object.spec.x' resulted "+
			"in error: no such key: x") + hook, "StatefulSet shop s",
			"ExpressionWrong webhooks[0].matchConditions[1].expression " +
				"object.spec.x"},
		{refused("StatefulSet", "s", "{containers: []}", "pods is forbidden: expression 'object.spec.y' resulted "+
			"in error: no such key: y") + hook, "StatefulSet shop s", "no ExpressionWrong"},
		{refused("StatefulSet", name, "{containers: []}", `invalid: metadata.labels: Invalid value: `+
			`"`+name+`-12345678": `+
			"must be no more than 63 bytes"), "StatefulSet shop " + name, "NameTooLong metadata.name " + name},
		{refused("StatefulSet", "s", "{containers: []}", `invalid: metadata.labels: Invalid value: "x-12345678": `+
			"must be no more than 63 bytes"), "StatefulSet shop s", "no NameTooLong"},
		{level(`hostPath volumes (volume "v")`), "StatefulSet shop s",
			"PodSecurityViolated spec.template.spec.volumes[1].hostPath /x"},
		{level(`hostPort (containers "i", "a" use hostPorts 80, 81)`), "StatefulSet shop s",
			"PodSecurityViolated spec.template.spec.initContainers[0].ports[0].hostPort 80"},
		{level(`hostPort (containers "i", "a" use hostPorts 80, 81)`), "StatefulSet shop s",
			"PodSecurityViolated spec.template.spec.containers[0].ports[1].hostPort 81"},
	})
}

// A selector of devices that could not be evaluated is named: the claim's or its class's.
func TestSelectorsThatReadWhatIsNotThereAreNamed(t *testing.T) {
	pod := func(words string) string {
		return webPod + "spec: {containers: [{name: a}]}\nstatus: {conditions: [{type: PodScheduled, status: " +
			"\"False\", message: '" + words + ": selector #0 on device d/p/one: CEL runtime error: no such key: mem. " +
			"consider'}]}\n---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c, " +
			"namespace: shop}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: k, selectors: " +
			"[{cel: {expression: device.mem}}]}}]}}}\n---\n{apiVersion: resource.k8s.io/v1, kind: DeviceClass, " +
			"metadata: {name: k}, spec: {selectors: [{cel: {expression: device.driver + mem}}]}}"
	}
	expectFindings(t, []struct{ cluster, of, want string }{
		{pod("claim shop/c"), "Pod shop web",
			"SelectorUnread spec.devices.requests[0].exactly.selectors[0].cel.expression " +
				"device.mem"},
		{pod("class k"), "Pod shop web", "SelectorUnread spec.selectors[0].cel.expression device.driver + mem"},
		{pod("claim shop/other"), "Pod shop web", "no SelectorUnread"},
	})
}
