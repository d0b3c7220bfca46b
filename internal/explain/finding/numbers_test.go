package finding

import "testing"

// Numbers of an object that contradict one another are told of, with those that do not beside them.
func TestNumbersThatContradict(t *testing.T) {
	job := func(spec, command string) string {
		return `{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: shop}, spec: {` + spec +
			`template: {spec: {containers: [{name: a, command: [sh, -c, "` + command + `"]}]}}}}`
	}
	cron := func(schedule, policy, command string) string {
		return `{apiVersion: batch/v1, kind: CronJob, metadata: {name: c, namespace: shop}, spec: {schedule: "` +
			schedule + `", concurrencyPolicy: ` + policy + `, jobTemplate: {spec: {template: {spec: {containers: ` +
			`[{name: a, command: [sh, -c, "` + command + `"]}]}}}}}}`
	}
	set := func(more string) string {
		return `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, namespace: shop}, spec: {replicas: 3, ` +
			more + `}}`
	}
	spread := func(domains string, replicas string) string {
		return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: shop}, spec: {replicas: ` +
			replicas + `, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a}], ` +
			`topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, ` +
			`minDomains: ` + domains + `, labelSelector: {matchLabels: {app: web}}}]}}}}` + "\n---\n" +
			`{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {zone: a}}}` + "\n---\n" +
			`{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {zone: b}}}`
	}
	scaler := func(target, limit string) string {
		return `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h, namespace: shop}, ` +
			`spec: {minReplicas: 2, maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, ` +
			`name: d}, ` +
			`metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: ` +
			target + `}}}]}}` + "\n---\n" + `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: ` +
			`shop}, spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, resources: ` +
			`{requests: {cpu: 100m}, limits: {cpu: ` + limit + `}}}]}}}}`
	}
	budget := func(n string) string {
		return scaler("50", "1") + "\n---\n" + `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: ` +
			`b, namespace: shop}, spec: {minAvailable: ` + n + `, selector: {matchLabels: {app: web}}}}`
	}
	const at = "spec.metrics[0].resource.target.averageUtilization"
	for _, c := range []struct{ cluster, of, want, words string }{
		{job("activeDeadlineSeconds: 60, ", "sleep 90"), "Job shop j",
			"NumbersConflict spec.activeDeadlineSeconds 60 180", "sleeps 90 s"},
		{job("activeDeadlineSeconds: 60, ", "sleep 2m"), "Job shop j",
			"NumbersConflict spec.activeDeadlineSeconds 60 240", "sleeps 120 s"},
		{job("activeDeadlineSeconds: 60, ", "sleep 30"), "Job shop j", "no NumbersConflict", ""},
		{job("activeDeadlineSeconds: 60, ", "while true; do sleep 90; done"), "Job shop j", "no NumbersConflict", ""},
		{cron("* * * * *", "Forbid", "sleep 90"), "CronJob shop c", "NumbersConflict spec.schedule *_*_*_*_* -",
			"starts are left out"},
		{cron("* * * * *", "Replace", "sleep 90"), "CronJob shop c", "NumbersConflict spec.schedule *_*_*_*_* -",
			"replaced by the next"},
		{cron("0 * * * *", "Replace", "sleep 90"), "CronJob shop c", "no NumbersConflict", ""},
		{set("updateStrategy: {rollingUpdate: {partition: 3}}"), "StatefulSet shop s",
			"NumbersConflict spec.updateStrategy.rollingUpdate.partition 3 0", "ordinals 0 to 2"},
		{set("ordinals: {start: 5}, updateStrategy: {rollingUpdate: {partition: 7}}"), "StatefulSet shop s",
			"no NumbersConflict", ""},
		{spread("3", "4"), "Deployment shop d",
			"NumbersConflict spec.template.spec.topologySpreadConstraints[0].minDomains 3 2", "nodes have 2 (a and b)"},
		{spread("2", "4"), "Deployment shop d", "no NumbersConflict", ""},
		{scaler("150", "100m"), "HorizontalPodAutoscaler shop h", "NumbersConflict " + at + " 150 80",
			"never scales up"},
		{scaler("150", "200m"), "HorizontalPodAutoscaler shop h", "no NumbersConflict", ""},
		{budget("2"), "HorizontalPodAutoscaler shop h", "NumbersConflict spec.minReplicas 2 3", "budget b demands 2"},
		{budget("1"), "HorizontalPodAutoscaler shop h", "no NumbersConflict", ""},
		{webPod + "spec: {activeDeadlineSeconds: 10, containers: [{name: a, readinessProbe: {" +
			"initialDelaySeconds: 20, httpGet: {port: 80}}}]}",
			"Pod shop web", "NumbersConflict spec.activeDeadlineSeconds 10 40",
			"never ready"},
		{job("backoffLimit: 0, ", "true"), "Job shop j", "NumberAtEdge spec.backoffLimit 0 3", "ends the Job"},
		{job("backoffLimit: 1, completions: 2, parallelism: 2, ", "true"), "Job shop j", "no NumberAtEdge", ""},
		{job("completions: 2, parallelism: 5, ", "true"), "Job shop j", "NumberAtEdge spec.parallelism 5 2",
			"no more than 2"},
		{set("revisionHistoryLimit: 0"), "StatefulSet shop s", "NumberAtEdge spec.revisionHistoryLimit 0 10",
			"roll back"},
	} {
		wantFinding(t, clusterOf(t, c.cluster), c.of, c.want, c.words)
	}
}
