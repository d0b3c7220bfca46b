package finding

import (
	"fmt"
	"strings"
	"testing"
)

// Each row is objects, the one that is asked about, and its finding of a code: "FIELD VALUE WANT"
// and words of the message; empty: none of that code.
func TestFieldsThatNobodyExpects(t *testing.T) {
	job := func(mode, command string) string {
		return `{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: shop}, spec: {` + mode + `template: ` +
			`{spec: {containers: [{name: a, command: [sh, -c, "` + command + `"]}]}}}}`
	}
	service := func(name, ip, port string) string {
		return `{apiVersion: v1, kind: Service, metadata: {name: ` + name + `, namespace: shop}, spec: ` +
			`{externalIPs: [` +
			ip + `], ports: [{port: ` + port + `, protocol: TCP}]}}`
	}
	set := func(policy string) string {
		return `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop}, spec: {` + policy +
			`volumeClaimTemplates: [{metadata: {name: data}}], template: {spec: {containers: [{name: a}]}}}}`
	}
	scaler := func(behavior, reason string) string {
		return `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h, namespace: shop}, ` +
			`spec: {` + behavior + `maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: ` +
			`web}}, ` +
			`status: {currentReplicas: 4, desiredReplicas: 4, conditions: [{type: AbleToScale, status: "True", ` +
			`reason: ` +
			reason + `}]}}`
	}
	port := func(ip string) string {
		return webPod + `spec: {containers: [{name: a, ports: [{containerPort: 80, hostPort: 8080, hostIP: "` + ip +
			`"}]}]}`
	}
	const next = "\n---\n"
	for _, row := range []struct{ name, objects, ask, code, want, words string }{
		{"index of no Indexed Job", job("", "run $JOB_COMPLETION_INDEX"), "Job j", "IndexUnset",
			"spec.completionMode NonIndexed Indexed", "the variable is not set"},
		{"an Indexed Job", job("completionMode: Indexed, ", "run $JOB_COMPLETION_INDEX"), "Job j", "IndexUnset", "",
			""},
		{"no index used", job("", "run"), "Job j", "IndexUnset", "", ""},
		{"one external IP twice", service("a", "192.0.2.1", "80") + next + service("b", "192.0.2.1", "80"), "Service a",
			"ExternalIPShared", "spec.externalIPs[0] 192.0.2.1 ", "of Service b"},
		{"of other ports", service("a", "192.0.2.1", "80") + next + service("b", "192.0.2.1", "81"), "Service a",
			"ExternalIPShared", "", ""},
		{"a port for the node alone", port("127.0.0.1"), "Pod web", "HostPortLoopback",
			"spec.containers[0].ports[0].hostIP 127.0.0.1 ", "nobody else"},
		{"a port for all", port("0.0.0.0"), "Pod web", "HostPortLoopback", "", ""},
		{"claims that go", set("persistentVolumeClaimRetentionPolicy: {whenScaled: Delete, whenDeleted: Retain}, "),
			"StatefulSet db", "ClaimsGo", "spec.persistentVolumeClaimRetentionPolicy.whenScaled Delete Retain",
			"when it is scaled down"},
		{"claims that stay", set(""), "StatefulSet db", "ClaimsGo", "", ""},
		{"the default window", scaler("", "ScaleDownStabilized"), "HorizontalPodAutoscaler h", "ScalingHeldBack",
			"spec.behavior.scaleDown.stabilizationWindowSeconds 300 ", "in the last 300 s"},
		{"a window", scaler("behavior: {scaleDown: {stabilizationWindowSeconds: 900}}, ", "ScaleDownStabilized"),
			"HorizontalPodAutoscaler h", "ScalingHeldBack",
			"spec.behavior.scaleDown.stabilizationWindowSeconds 900 ", "in the last 900 s"},
		{"policies", scaler("behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 60}]}}, ",
			"ScaleUpLimit"), "HorizontalPodAutoscaler h", "ScalingHeldBack",
			"spec.behavior.scaleUp.policies 1 Pods in 60 s ", "it may grow by 1 Pods in 60 s"},
		{"nothing holds it", scaler("", "ReadyForNewScale"), "HorizontalPodAutoscaler h", "ScalingHeldBack", "", ""},
	} {
		kind, name, _ := strings.Cut(row.ask, " ")
		got, message := "", ""
		for _, f := range Of(clusterOf(t, row.objects), Object{kind, "shop", name}) {
			if f.Code == row.code {
				got, message = fmt.Sprintf("%s %s %s", f.Field, f.Value, f.Want), f.Message
			}
		}
		if got != row.want || !strings.Contains(message, row.words) {
			t.Errorf("%s: got %q and %q, want %q and %q", row.name, got, message, row.want, row.words)
		}
	}
}

// A CronJob whose Jobs are to be Indexed says their completions, as an Indexed Job has to: those
// that it has, or else as many as run at once.
//
// row: RST-10
func TestIndexedJobsSayTheirCompletions(t *testing.T) {
	for spec, want := range map[string]string{"": `"completions":1}`, "parallelism: 3, ": `"completions":3}`,
		"completions: 5, parallelism: 2, ": `"completions":5}`} {
		objects := `{apiVersion: batch/v1, kind: CronJob, metadata: {name: c, namespace: shop}, spec: {schedule: ` +
			`"0 * * * *", jobTemplate: {spec: {` + spec + `template: {spec: {containers: [{name: a, args: ` +
			`[$JOB_COMPLETION_INDEX]}]}}}}}}`
		got := ""
		for _, f := range Of(clusterOf(t, objects), Object{"CronJob", "shop", "c"}) {
			if f.Code == "IndexUnset" {
				got = fmt.Sprint(f.Remedies)
			}
		}
		if !strings.Contains(got, want) || !strings.Contains(got, `"completionMode":"Indexed"`) {
			t.Errorf("%q: got %s, want %s and the mode Indexed", spec, got, want)
		}
	}
}
