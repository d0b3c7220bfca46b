package controllers_test

import (
	"errors"
	"fmt"
	"time"
)

const template = `
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: web}]}
`

func workload(kind, spec string) string {
	return "kind: " + kind + "\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:" +
		template + spec
}

// podOfAnother is a Pod that a set adopts.
const podOfAnother = "kind: Pod\nmetadata: {name: orphan, labels: {app: web}}\n" +
	"spec: {containers: [{name: c, image: web}]}\n"

// deletesOneOf deletes one live Pod: it is replaced.
func deletesOneOf(w *instance) {
	if pods := w.live("Pod", "app=web"); len(pods) > 0 {
		w.delete("Pod/" + pods[0].GetName())
	}
}

var rowsOfWorkloads = []row{
	{name: "replicaset", event: "FailedCreate", steps: []step{
		{func(w *instance) {
			w.make(podOfAnother)
			w.make(workload("ReplicaSet", "  replicas: 3\n"))
		}, allOf(count("Pod", "app=web", 3), fieldIs("ReplicaSet/web", "status.replicas", "3"),
			adopted)},
		{deletesOneOf, allOf(count("Pod", "app=web", 3), fieldIs("ReplicaSet/web", "status.replicas", "3"))},
		{patches("ReplicaSet/web", `{"spec":{"replicas":1}}`), allOf(count("Pod", "", 1),
			fieldIs("ReplicaSet/web", "status.replicas", "1"), fieldIs("ReplicaSet/web", "status.conditions", ""))}}},
	{name: "replicationcontroller", event: "FailedCreate", steps: []step{
		{makes("kind: ReplicationController\nmetadata: {name: web}\nspec:\n  replicas: 2\n  template:" + template),
			allOf(count("Pod", "app=web", 2), fieldIs("ReplicationController/web", "status.replicas", "2"))},
		{deletesOneOf, allOf(count("Pod", "app=web", 2), fieldIs("ReplicationController/web", "status.conditions",
			""))}}},
	{name: "deployment", with: []string{"replicaset"}, event: "ReplicaSetCreateError", steps: []step{
		{makes(workload("Deployment", "  replicas: 2\n  strategy: {type: Recreate}\n")),
			allOf(count("Pod", "app=web", 2), count("ReplicaSet", "", 1),
				fieldIs("Deployment/web", "status.updatedReplicas", "2"))},
		{patches("Deployment/web", `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":5}}}}`),
			newRevision}}},
	{name: "statefulset", event: "FailedCreate", steps: []step{
		{makes(workload("StatefulSet", "  replicas: 2\n  podManagementPolicy: Parallel\n  volumeClaimTemplates:\n"+
			"  - metadata: {name: data}\n    spec: {accessModes: [ReadWriteOnce], "+
			"resources: {requests: {storage: 1Gi}}}\n")),
			allOf(exists("Pod/web-0"), exists("Pod/web-1"), count("Pod", "", 2), count("PersistentVolumeClaim", "", 2),
				fieldIs("StatefulSet/web", "status.replicas", "2"), count("ControllerRevision", "", 1))},
		{deletes("Pod/web-0"), allOf(exists("Pod/web-0"), count("Pod", "", 2))},
		{patches("StatefulSet/web", `{"spec":{"replicas":1}}`), allOf(exists("Pod/web-0"), isGone("Pod/web-1"),
			count("PersistentVolumeClaim", "", 2), fieldIs("StatefulSet/web", "status.replicas", "1"))}}},
	{name: "daemonset", event: "FailedCreate", steps: []step{
		{func(w *instance) {
			w.make("kind: Node\nmetadata: {name: NS-a, labels: {in: NS}}\n---\n" +
				"kind: Node\nmetadata: {name: NS-b, labels: {in: NS}}\n")
			w.make("kind: DaemonSet\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n" +
				"  template:\n    metadata: {labels: {app: web}}\n" +
				"    spec: {nodeSelector: {in: NS}, containers: [{name: c, image: web}], " +
				"tolerations: [{operator: Exists}]}\n")
		}, allOf(count("Pod", "app=web", 2), fieldIs("DaemonSet/web", "status.currentNumberScheduled", "2"),
			count("ControllerRevision", "", 1))},
		{deletesOneOf, count("Pod", "app=web", 2)},
		{patches("Node/NS-b", `{"metadata":{"labels":{"in":null}}}`), allOf(count("Pod", "app=web", 1),
			fieldIs("DaemonSet/web", "status.desiredNumberScheduled", "1"))}}},
	{name: "job", event: "FailedCreate", steps: []step{
		{makes("kind: Job\nmetadata: {name: web}\nspec:\n  parallelism: 2\n  completions: 2\n  " +
			"template:\n" +
			"    metadata: {labels: {app: web}}\n    spec: {restartPolicy: Never, " +
			"containers: [{name: c, image: web}]}\n"),
			allOf(count("Pod", "app=web", 2), fieldIs("Job/web", "status.active", "2"))},
		{func(w *instance) {
			for _, p := range w.live("Pod", "app=web") {
				w.status("Pod/"+p.GetName(), map[string]any{"phase": "Succeeded"})
			}
		}, allOf(fieldIs("Job/web", "status.succeeded", "2"), fieldIs("Job/web", "status.conditions[Complete].status",
			"True"),
			fieldIs("Job/web", "status.uncountedTerminatedPods", "map[]"), jobPodsReleased)}}},
	{name: "jobttl", with: []string{"job", "ownergc"}, steps: []step{
		{makes("kind: Job\nmetadata: {name: done}\nspec:\n  completions: 0\n  ttlSecondsAfterFinished: 0\n" +
			"  template:\n    spec: {restartPolicy: Never, containers: [{name: c, image: web}]}\n"),
			isGone("Job/done")}}},
	{name: "cronjob", event: "FailedCreate", steps: []step{{func(w *instance) {
		w.make("kind: CronJob\nmetadata: {name: tick}\nspec:\n  schedule: '*/59 * 31 12 *'\n  jobTemplate:\n" +
			"    spec:\n      template:\n        spec: {restartPolicy: Never, containers: [{name: c, image: web}]}\n")
		// it ran before the last time that it was due
		w.patch("CronJob/tick", `{"spec":{"schedule":"* * * * *","concurrencyPolicy":"Forbid"}}`)
		w.status("CronJob/tick", map[string]any{"lastScheduleTime": twoMinutesAgo()})
	}, oneJobOfEachMinute}}},
	{name: "disruption", steps: []step{
		{func(w *instance) {
			w.make("kind: PodDisruptionBudget\nmetadata: {name: web}\nspec:\n  minAvailable: 1\n" +
				"  selector: {matchLabels: {app: orphan}}\n")
			w.make(pod("orphan", ""))
		}, allOf(fieldIs("PodDisruptionBudget/web", "status.expectedPods", "1"),
			fieldIs("PodDisruptionBudget/web", "status.desiredHealthy", "1"),
			fieldIs("PodDisruptionBudget/web", "status.disruptionsAllowed", "0"))},
		{func(w *instance) {
			w.status("Pod/orphan", map[string]any{"phase": "Running",
				"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}})
			w.patch("PodDisruptionBudget/web", `{"spec":{"minAvailable":0}}`)
		}, allOf(fieldIs("PodDisruptionBudget/web", "status.disruptionsAllowed", "1"),
			fieldIs("PodDisruptionBudget/web", "status.currentHealthy", "1"),
			fieldIs("PodDisruptionBudget/web", "status.conditions[DisruptionAllowed].status", "True"))}}},
	{name: "horizontalpodautoscaler", event: "FailedRescale", set: decidesOften, steps: []step{
		{func(w *instance) {
			w.make(workload("Deployment", "  replicas: 1\n"))
			w.make("kind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec:\n  minReplicas: 3\n  maxReplicas: 5\n" +
				"  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n  metrics: [{type: Resource, " +
				"resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]\n")
		}, allOf(fieldIs("Deployment/web", "spec.replicas", "3"),
			fieldIs("HorizontalPodAutoscaler/web", "status.conditions[AbleToScale].status", "True"))}}},
}

func twoMinutesAgo() string { return time.Now().UTC().Add(-2 * time.Minute).Format(time.RFC3339) }

// adopted: the set has the orphan. When answers of creations are lost there are too many Pods for a
// moment, and the orphan may be the one that goes.
func adopted(w *instance) error {
	if w.fate == lost && w.get("Pod/orphan") == nil {
		return nil
	}
	return w.fieldIs("Pod/orphan", "metadata.ownerReferences[web].kind", "ReplicaSet")
}

// newRevision: the old ReplicaSet is empty, the new one has the Pods.
func newRevision(w *instance) error {
	var errs []error
	sizes := map[string]string{}
	sets := w.list("ReplicaSet", "")
	for _, rs := range sets {
		sizes[rs.GetAnnotations()["deployment.kubernetes.io/revision"]] = field(&rs, "spec.replicas")
	}
	if len(sets) != 2 || sizes["1"] != "0" || sizes["2"] != "2" {
		errs = append(errs, fmt.Errorf("ReplicaSets by revision are %v, want 1:0 2:2", sizes))
	}
	return errors.Join(append(errs, w.count("Pod", "app=web", 2), w.fieldIs("Deployment/web", "status.updatedReplicas",
		"2"),
		w.fieldIs("Deployment/web", "status.conditions[ReplicaFailure].status", ""))...)
}

// jobPodsReleased: ends that are counted hold no Pod.
func jobPodsReleased(w *instance) error {
	pods := w.list("Pod", "app=web")
	if len(pods) != 2 {
		return fmt.Errorf("%d Pods, want 2", len(pods))
	}
	for _, p := range pods {
		if len(p.GetFinalizers()) > 0 {
			return fmt.Errorf("Pod %s has finalizers %v", p.GetName(), p.GetFinalizers())
		}
	}
	return nil
}

// oneJobOfEachMinute: with Forbid and no end there is one Job, which the status knows.
func oneJobOfEachMinute(w *instance) error {
	jobs := w.list("Job", "")
	if len(jobs) != 1 {
		return fmt.Errorf("%d Jobs, want 1", len(jobs))
	}
	return w.fieldIs("CronJob/tick", "status.active[0].name", jobs[0].GetName())
}
