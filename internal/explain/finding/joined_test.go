package finding

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Each row is a cluster, an object, and what one of its findings blames: "CODE KIND/NAME FIELD
// VALUE SEVERITY", and words of its message; "no CODE" for none.
func TestFindingsOfJoinedObjects(t *testing.T) {
	const limits = `
---
{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: shop}, spec: {limits: [{type: Container, ` +
		`defaultRequest: {cpu: "9"}, default: {memory: 1Mi}}]}}`
	const filled = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, creationTimestamp: "2026-05-01T11:00:00Z", annotations: ` +
		`{kubernetes.io/limit-ranger: "LimitRanger plugin set: cpu request for container a; memory limit for ` +
		`container a"}}
spec: {containers: [{name: a, resources: {requests: {cpu: "9"}, limits: {memory: 1Mi}}}]`
	const owned = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, creationTimestamp: "2026-05-01T11:00:00Z", ownerReferences: [{kind: ` +
		`ReplicaSet, ` +
		`name: r, uid: r, controller: true}]}
spec: {nodeSelector: {disk: quick}, containers: [{name: a, image: mirror/i}, {name: side, image: s}]}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r, namespace: shop, uid: r}, spec: {template: {spec: ` +
		`{containers: [{name: a, image: i}]}}}}`
	gone := func(kind, name, finalizer, more string) string {
		return `{apiVersion: v1, kind: ` + kind + `, metadata: {name: ` + name + `, namespace: shop, uid: u, ` +
			`deletionTimestamp: "2026-05-01T11:59:00Z", finalizers: [` + finalizer + `]` + more + `}}`
	}
	event := func(reason, message, object string) string {
		return `
---
{apiVersion: v1, kind: Event, metadata: {name: e` + object + `, namespace: shop}, type: Warning, reason: ` + reason +
			`, message: "` + message + `", lastTimestamp: "2026-05-01T11:59:30Z", involvedObject: {kind: Pod, name: ` +
			object + `, namespace: shop}}`
	}
	const twoPods = webPod + `spec: {nodeName: n1, containers: [{name: a}]}
---
{apiVersion: v1, kind: Pod, metadata: {name: api, namespace: shop}, spec: {nodeName: n1, containers: [{name: a}]}}`
	refused := func(message, more string) string {
		return `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, namespace: shop, uid: s}, spec: ` +
			`{template: ` +
			`{spec: {hostNetwork: true, containers: [{name: a, image: "shop/app:1"}]}}}}
---
{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, type: Warning, reason: FailedCreate, message: '` +
			message + `', lastTimestamp: "2026-05-01T11:59:30Z", involvedObject: {kind: StatefulSet, name: s, ` +
			`namespace: ` +
			`shop}}` + more
	}
	for _, c := range []struct{ name, cluster, of, want, words string }{
		{"default request", filled + "}" + limits, "Pod shop web",
			"SetByAdmission LimitRange/l spec.limits[0].defaultRequest.cpu 9 threat", "its author stated none"},
		{"default limit", filled + "}" + limits, "Pod shop web",
			"SetByAdmission LimitRange/l spec.limits[0].default.memory 1Mi threat", "limit of 1Mi"},
		{"of a running Pod", strings.Replace(filled, "{containers", "{nodeName: n1, containers", 1) + "}" + limits,
			"Pod shop web", "SetByAdmission LimitRange/l spec.limits[0].default.memory 1Mi note", ""},
		{"overhead", webPod + `spec: {runtimeClassName: vm, overhead: {memory: 4Gi}, containers: [{name: a}]}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: vm}, handler: vm, overhead: {podFixed: {memory: ` +
			`4Gi}}}`,
			"Pod shop web", "SetByAdmission RuntimeClass/vm overhead.podFixed.memory 4Gi threat",
			"overhead of RuntimeClass"},
		{"preemption", webPod + `spec: {priorityClassName: low, containers: [{name: a}]}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: 7, preemptionPolicy: Never}`,
			"Pod shop web", "SetByAdmission PriorityClass/low preemptionPolicy Never threat", "preempts nobody"},
		{"changed by somebody", owned, "Pod shop web", "ChangedByAdmission Pod/web spec.nodeSelector[disk] " +
			"disk=quick threat",
			"an admission webhook or policy changed it"},
		{"changed by the only webhook", owned + `
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: m}, webhooks: []}`,
			"Pod shop web", "ChangedByAdmission MutatingWebhookConfiguration/m webhooks[0] mirror/i threat", ""},
		{"container of another name", webPod + `spec: {containers: [{name: app, env: [{name: X, valueFrom: ` +
			`{resourceFieldRef: {containerName: ap, resource: limits.cpu}}}]}]}`, "Pod shop web",
			"PartMissing Pod/web spec.containers[0].env[0].valueFrom.resourceFieldRef.containerName ap broken",
			"Perhaps app was meant"},
		{"container of a volume", webPod + `spec: {containers: [{name: app}], volumes: [{name: v, downwardAPI: ` +
			`{items: [` +
			`{path: x, resourceFieldRef: {containerName: web, resource: limits.cpu}}]}}]}`, "Pod shop web",
			"PartMissing Pod/web spec.volumes[0].downwardAPI.items[0].resourceFieldRef.containerName web broken", ""},
		{"label that the Pod lacks", webPod + `spec: {containers: [{name: app, env: [{name: X, valueFrom: {fieldRef: ` +
			`{fieldPath: "metadata.labels['ap']"}}}]}]}`, "Pod shop web",
			"PartMissing Pod/web spec.containers[0].env[0].valueFrom.fieldRef.fieldPath metadata.labels['ap'] threat",
			"app"},
		{"label that it has", webPod + `spec: {containers: [{name: app, env: [{name: X, valueFrom: {fieldRef: ` +
			`{fieldPath: "metadata.labels['app']"}}}]}]}`, "Pod shop web", "no PartMissing", ""},
		{"port of a hook", webPod + `spec: {containers: [{name: app, ports: [{name: http}], lifecycle: {preStop: ` +
			`{httpGet: ` +
			`{port: htp}}}}]}`, "Pod shop web",
			"PartMissing Pod/web spec.containers[0].lifecycle.preStop.httpGet.port htp threat", "http"},
		{"claim in use", gone("PersistentVolumeClaim", "data", "kubernetes.io/pvc-protection", "") + "\n---\n" +
			webPod +
			`spec: {nodeName: n1, containers: [{name: a}], volumes: [{name: v, persistentVolumeClaim: ` +
			`{claimName: data}}]}`, "PersistentVolumeClaim shop data",
			"FinalizerHolds PersistentVolumeClaim/data metadata.finalizers kubernetes.io/pvc-protection broken",
			"web uses it"},
		{"foreground", gone("ConfigMap", "c", "foregroundDeletion", "") + `
---
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop, finalizers: [example.com/hold], ` +
			`deletionTimestamp: ` +
			`"2026-05-01T11:59:00Z", ownerReferences: [{kind: ConfigMap, name: c, uid: u, blockOwnerDeletion: true}]}}`,
			"ConfigMap shop c", "FinalizerHolds ConfigMap/c metadata.finalizers foregroundDeletion broken",
			"Secret s, which is held by example.com/hold"},
		{"set by somebody", gone("ConfigMap", "c", "example.com/hold",
			`, managedFields: [{manager: cleaner, fieldsType: `+
				`FieldsV1, fieldsV1: {"f:metadata": {"f:finalizers": {"v:\"example.com/hold\"": {}}}}}]`),
			"ConfigMap shop c",
			"FinalizerHolds ConfigMap/c metadata.finalizers example.com/hold broken", "cleaner set it"},
		{"warning of a node's configuration", twoPods + event("DNSConfigForming", "too many", "web"), "Pod shop web",
			"Warning Node/n1 - DNSConfigForming note", "too many"},
		{"warning that two Pods have", twoPods + event("Odd", "of web", "web") + event("Odd", "of api", "api"),
			"Pod shop web", "Warning Node/n1 - Odd note", ""},
		{"warning of a Pod", twoPods + event("Odd", "this one", "web"), "Pod shop web",
			"Warning Pod/web - Odd threat", ""},
		{"invalid field", refused(`create Pod s-0 failed error: Pod "s-0" is invalid: spec.containers[0].image: `+
			`Invalid `+
			`value: "shop/app:1": bad`, ""), "StatefulSet shop s",
			"PodsRefused StatefulSet/s spec.template.spec.containers[0].image shop/app:1 broken", "refuses"},
		{"refusal that quotes", refused(`pods "s-0" is forbidden: image shop/app:1 is not allowed`, ""),
			"StatefulSet shop s", "PodsRefused StatefulSet/s spec.template.spec.containers[0].image shop/app:1 " +
				"threat", ""},
		{"policy", refused(`pods "s-0" is forbidden: ValidatingAdmissionPolicy ''p'' with binding ''b'' denied `+
			`request: `+
			`no host network`, `
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: `+
			`{validations: `+
			`[{expression: "true", message: other}, {expression: "!object.spec.hostNetwork", message: no host `+
			`network}]}}`),
			"StatefulSet shop s", "DeniedByPolicy ValidatingAdmissionPolicy/p spec.validations[1].expression " +
				"!object.spec.hostNetwork broken", "It demands"},
		{"policy that fails itself", refused(`pods "s-0" is forbidden: ValidatingAdmissionPolicy ''p'' with binding `+
			`''b'' denied request: expression ''object.spec.replicas > 2'' resulted in error: no such key: replicas`, `
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: `+
			`{validations: [{expression: "true"}, {expression: object.spec.replicas > 2}]}, status: {typeChecking: `+
			`{expressionWarnings: [{fieldRef: x, warning: undefined field}]}}}`), "StatefulSet shop s",
			"DeniedByPolicy ValidatingAdmissionPolicy/p spec.validations[1].expression object.spec.replicas > 2 broken",
			"fails on such an object (no such key: replicas), whatever the Pods are like. Type checking said of x: " +
				"undefined field"},
	} {
		kind, rest, _ := strings.Cut(c.of, " ")
		ns, name, _ := strings.Cut(rest, " ")
		found := Of(clusterOf(t, c.cluster), Object{kind, ns, name})
		var all []string
		ok := false
		for _, f := range found {
			field, value := f.Field, f.Value
			if field == "" {
				field = "-"
			}
			severity, _ := f.Severity.MarshalText()
			line := strings.Join([]string{f.Code, f.Object.Kind + "/" + f.Object.Name, field, value,
				string(severity)}, " ")
			all = append(all, line)
			ok = ok || line == c.want && strings.Contains(f.Message, c.words)
		}
		if no, none := strings.CutPrefix(c.want, "no "); none {
			ok = !slices.ContainsFunc(found, func(f Finding) bool { return f.Code == no })
		}
		if !ok {
			t.Errorf("%s: got\n  %s\nwant %s (%s)", c.name, strings.Join(all, "\n  "), c.want, c.words)
		}
	}
}

// Pods that were made a moment ago, of which nothing has failed, are under way.
func TestYoungPodsAreUnderWay(t *testing.T) {
	c := &Cluster{Now: now}
	young := func(set func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{}
		p.CreationTimestamp.Time = now.Add(-settleTime)
		set(p)
		return p
	}
	status := func(s corev1.ContainerStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{s} }
	}
	for name, x := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"no status yet": {young(func(*corev1.Pod) {}), true},
		"pulls": {young(status(corev1.ContainerStatus{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{
				Reason: "ContainerCreating"}}})), true},
		"has no image": {young(status(corev1.ContainerStatus{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}})), false},
		"was restarted": {young(status(corev1.ContainerStatus{RestartCount: 1})), false},
		"finds no node": {young(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
		}), false},
		"is old": {young(func(p *corev1.Pod) { p.CreationTimestamp.Time = now.Add(-10 * settleTime) }), false},
	} {
		if got := c.underWay(x.pod); got != x.want {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
}
