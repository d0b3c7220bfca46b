package finding

import (
	"fmt"
	"strings"
	"testing"
)

// Each row is objects, the one that is asked about, and its finding of a code: "SEVERITY FIELD
// VALUE WANT" and words of its message; empty: none of that code.
//
// row: RST-10
func TestRulesThatJoinSeveralObjects(t *testing.T) {
	claim := func(name, modes, size, more string) string {
		return `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: ` + name + `, namespace: shop` + more +
			`}, spec: {storageClassName: s, accessModes: [` + modes + `], resources: {requests: {storage: ` + size +
			`}}}, status: {phase: Bound, capacity: {storage: ` + size + `}}}`
	}
	const going = `, deletionTimestamp: "2026-05-01T11:59:00Z", finalizers: [kubernetes.io/pvc-protection]`
	const next = "\n---\n"
	pod := webPod + `spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: data}}], containers: [{name: a}]}`
	user := `{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: shop}, spec: {volumes: [{name: d, ` +
		`persistentVolumeClaim: {claimName: spare}}], containers: [{name: a}]}, status: {phase: Running}}`
	ephemeral := `{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: shop}, spec: {volumes: [{name: d, ` +
		`ephemeral: {volumeClaimTemplate: {spec: {}}}}], containers: [{name: a}]}, status: {phase: Running}}`
	settings := func(changed, key string) string {
		return `{apiVersion: v1, kind: ConfigMap, metadata: {name: flags, namespace: shop, creationTimestamp: ` +
			`"2026-05-01T11:00:00Z", managedFields: [{manager: kubectl, operation: Update, apiVersion: v1, time: "` +
			changed + `", fieldsType: FieldsV1, fieldsV1: {"f:data": {"f:` + key + `": {}}}}]}, data: {mode: "on"}}`
	}
	running := func(container, ready string) string {
		return webPod + `spec: {volumes: [{name: v, configMap: {name: flags}}], containers: [{name: a, ` + container +
			`}]}` + "\n" + `status: {phase: Running, containerStatuses: [{name: a, ready: ` + ready +
			`, state: {running: {startedAt: "2026-05-01T11:30:00Z"}}}]}`
	}
	const file = `volumeMounts: [{name: v, mountPath: /etc/mode, subPath: mode}]`
	const probed = file + `, readinessProbe: {exec: {command: [grep, "on", /etc/mode]}}`
	scaled := func(replicas string) string {
		return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: ` +
			replicas + `, template: {spec: {containers: [{name: a}]}}}}` + next +
			`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h, namespace: shop}, spec: ` +
			`{maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}`
	}
	affine := func(operator string) string {
		return webPod + `spec: {containers: [{name: a}], affinity: {nodeAffinity: ` +
			`{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: gen, ` +
			`operator: ` + operator + `, values: ["5"]}]}]}}}}` + next +
			`{apiVersion: v1, kind: Node, metadata: {name: node-1, labels: {gen: "4"}}}`
	}
	for _, row := range []struct{ name, objects, ask, code, want, words string }{
		{"another claim", claim("data", "ReadWriteOnce", "1Gi", going) + next + claim("spare", "ReadWriteOnce", "2Gi",
			"") +
			next + pod, "Pod web", "ReferenceTerminating",
			"broken spec.volumes[0].persistentVolumeClaim.claimName data spare", "for instance spare"},
		{"in use by another Pod", claim("data", "ReadWriteOnce", "1Gi", going) + next + claim("spare", "ReadWriteOnce",
			"2Gi", "") + next + pod + next + user, "Pod web", "ReferenceTerminating",
			"broken spec.volumes[0].persistentVolumeClaim.claimName data ", "needs another claim."},
		{"of another Pod's ephemeral volume", claim("data", "ReadWriteOnce", "1Gi", going) + next + claim("other-d",
			"ReadWriteOnce", "2Gi", "") + next + pod + next + ephemeral, "Pod web", "ReferenceTerminating",
			"broken spec.volumes[0].persistentVolumeClaim.claimName data ", "needs another claim."},
		{"of another mode", claim("data", "ReadWriteMany", "1Gi", going) + next + claim("spare", "ReadWriteOnce", "2Gi",
			"") + next + pod, "Pod web", "ReferenceTerminating",
			"broken spec.volumes[0].persistentVolumeClaim.claimName data ", "needs another claim."},
		{"a file that stays old", settings("2026-05-01T11:40:00Z", "mode") + next + running(probed, "false"), "Pod web",
			"ChangedSinceStart", "broken spec.containers[0].volumeMounts[0].subPath file /etc/mode, which is " +
				"mounted with subPath mode ", "ConfigMap flags was changed 10m0s after container a started"},
		{"of a Pod that is ready", settings("2026-05-01T11:40:00Z", "mode") + next + running(probed, "true"), "Pod web",
			"ChangedSinceStart", "note spec.containers[0].volumeMounts[0].subPath file /etc/mode, which is mounted " +
				"with subPath mode ", ""},
		{"changed before it started", settings("2026-05-01T11:20:00Z", "mode") + next + running(probed, "false"),
			"Pod web", "ChangedSinceStart", "", ""},
		{"another key was changed", settings("2026-05-01T11:40:00Z", "other") + next + running(probed, "false"),
			"Pod web", "ChangedSinceStart", "", ""},
		{"a directory follows", settings("2026-05-01T11:40:00Z", "mode") + next + running(
			`volumeMounts: [{name: v, mountPath: /etc/app}]`, "false"), "Pod web", "ChangedSinceStart", "", ""},
		{"a variable that stays old", settings("2026-05-01T11:40:00Z", "mode") + next + running(
			`env: [{name: MODE, valueFrom: {configMapKeyRef: {name: flags, key: mode}}}]`, "false"), "Pod web",
			"ChangedSinceStart", "note spec.containers[0].env[0].valueFrom variable MODE ", "old content of " +
				"variable MODE"},
		{"an autoscaler's number", scaled("3"), "Deployment web", "ScaledByAutoscaler", "note spec.maxReplicas 3 ",
			"minReplicas 1 and maxReplicas 3"},
		{"not at rest", scaled("0"), "Deployment web", "ScaledByAutoscaler", "", ""},
		{"numbers are not near as names are", affine("Gt"), "Pod web", "NodeLabelMissing",
			"broken spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]." +
				"matchExpressions[0] gen Gt 5 ", "nodes have gen=4."},
	} {
		kind, name, _ := strings.Cut(row.ask, " ")
		got, message := "", ""
		for _, f := range Of(clusterOf(t, row.objects), Object{kind, "shop", name}) {
			if f.Code == row.code {
				got, message = fmt.Sprintf("%s %s %s %s", severities[f.Severity], f.Field, f.Value, f.Want), f.Message
			}
		}
		if got != row.want || !strings.Contains(message, row.words) {
			t.Errorf("%s: got %q and %q, want %q and %q", row.name, got, message, row.want, row.words)
		}
	}
}
