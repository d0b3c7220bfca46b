package finding

import (
	"slices"
	"strings"
	"testing"
)

// area is a cluster, an object, and what one of its findings is: "CODE KIND/NAME FIELD VALUE WANT
// SEVERITY", - for an empty one, and words of its message; "no CODE" for none.
type area struct{ name, cluster, of, want, words string }

func (a area) check(t *testing.T) {
	t.Helper()
	kind, rest, _ := strings.Cut(a.of, " ")
	ns, name, _ := strings.Cut(rest, " ")
	found := Of(clusterOf(t, a.cluster), Object{kind, strings.Trim(ns, "-"), name})
	if code, none := strings.CutPrefix(a.want, "no "); none {
		if slices.ContainsFunc(found, func(f Finding) bool { return f.Code == code }) {
			t.Errorf("%s: got %+v, want %s", a.name, found, a.want)
		}
		return
	}
	var have []string
	for _, f := range found {
		words := []string{f.Code, f.Object.Kind + "/" + f.Object.Name, f.Field, f.Value, f.Want, severities[f.Severity]}
		for i, w := range words {
			if words[i] = strings.ReplaceAll(w, " ", "_"); w == "" {
				words[i] = "-"
			}
		}
		text := strings.Join(words, " ")
		have = append(have, text+": "+f.Message)
		if text == a.want && strings.Contains(f.Message, a.words) {
			return
		}
	}
	t.Errorf("%s: got\n  %s\nwant\n  %s: … %s", a.name, strings.Join(have, "\n  "), a.want, a.words)
}

// Nothing is given out of a pool of devices that is not complete.
func TestAPoolOfWhichSlicesAreMissingIsReported(t *testing.T) {
	slice := func(name, driver, generation, count string) string {
		return `{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: ` + name + `}, spec: {driver: ` +
			driver + `, pool: {name: n1, generation: ` + generation + `, resourceSliceCount: ` +
			`` + count + `}}}` + "\n---\n"
	}
	claim := func(selector, more string) string {
		return `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c, namespace: shop}, spec: ` +
			`{devices: {requests: [{name: d, exactly: {deviceClassName: gpu` + selector + `}}]}}` + more + "}\n---\n"
	}
	const gpu = `, selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}]`
	const waits = webPod + "spec: {resourceClaims: [{name: d, resourceClaimName: c}], containers: [{name: a}]}\n---\n"
	const incomplete = "PoolIncomplete ResourceSlice/s spec.pool.resourceSliceCount 2 1 threat"
	for _, c := range []area{
		{"of a Pod", waits + claim(gpu, "") + slice("s", "gpu.example.com", "1", "2"), "Pod shop web", incomplete,
			"has 2 ResourceSlices of generation 1, and 1 of them"},
		{"of a claim", claim("", "") + slice("s", "gpu.example.com", "1", "2"), "ResourceClaim shop c", incomplete, ""},
		{"of itself", slice("s", "gpu.example.com", "1", "2"), "ResourceSlice - s", incomplete, ""},
		{"of another driver", waits + claim(gpu, "") + slice("s", "nic.example.com", "1", "2"), "Pod shop web",
			"no PoolIncomplete", ""},
		{"complete", waits + claim(gpu, "") + slice("s", "gpu.example.com", "1", "2") + slice("z",
			"gpu.example.com", "1", "2"), "Pod shop web", "no PoolIncomplete", ""},
		{"an older generation does not count", claim(gpu, "") + slice("z", "gpu.example.com", "1", "2") + slice("s",
			"gpu.example.com", "2", "2"), "ResourceClaim shop c", incomplete, ""},
		{"with devices", claim(gpu, ", status: {allocation: {devices: {}}}") + slice("s", "gpu.example.com", "1", "2"),
			"ResourceClaim shop c", "no PoolIncomplete", ""},
	} {
		c.check(t)
	}
}

// A budget with too few healthy Pods keeps also those that are not ready, unless it says otherwise.
func TestABudgetThatKeepsPodsThatAreNotReady(t *testing.T) {
	budget := func(spec, status string) string {
		return webPod + "spec: {nodeName: n1, containers: [{name: a}]}\nstatus: {phase: Running}\n---\n" +
			`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b, namespace: shop}, spec: ` +
			`{minAvailable: ` +
			`1, selector: {matchLabels: {app: web}}` + spec + `}, status: {expectedPods: 2, desiredHealthy: 1, ` +
			`` + status +
			`disruptionsAllowed: 0}}`
	}
	for _, c := range []area{
		{"by default", budget("", "currentHealthy: 0, "), "PodDisruptionBudget shop b", "UnhealthyHeld " +
			"PodDisruptionBudget/b spec.unhealthyPodEvictionPolicy IfHealthyBudget AlwaysAllow threat", "as 0 of the " +
			"1 that"},
		{"allowed", budget(", unhealthyPodEvictionPolicy: AlwaysAllow", "currentHealthy: 0, "),
			"PodDisruptionBudget shop b", "no UnhealthyHeld", ""},
		{"enough are healthy", budget("", "currentHealthy: 1, "), "PodDisruptionBudget shop b", "no UnhealthyHeld", ""},
		{"that has not started", strings.Replace(budget("", "currentHealthy: 0, "), "phase: Running", "phase: "+
			"Pending", 1),
			"PodDisruptionBudget shop b", "no UnhealthyHeld", ""},
	} {
		c.check(t)
	}
}

// What waits for a Pod's end says how long that may take.
func TestAJobSaysHowLongItsOldPodMayTake(t *testing.T) {
	job := func(grace, at string) string {
		return `{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: shop, uid: j}, spec: ` +
			`{podReplacementPolicy: ` +
			`Failed, template: {spec: {}}}, status: {terminating: 1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: j-1, namespace: shop, deletionTimestamp: "` + at +
			`", deletionGracePeriodSeconds: ` + grace + `, ownerReferences: [{kind: Job, name: j, uid: j, ` +
			`controller: true}]}}`
	}
	const waits = "WaitsForEnd Job/j spec.podReplacementPolicy Failed TerminatingOrFailed "
	for _, c := range []area{
		{"for long", job("900", "2026-05-01T12:10:00Z"), "Job shop j", waits + "threat", "Of its grace period of 900 " +
			"s 10m0s"},
		{"for a moment", job("30", "2026-05-01T12:00:30Z"), "Job shop j", waits + "note", "while 1 of its Pods"},
	} {
		c.check(t)
	}
}

// Admission ends with the first refusal: a quota that refuses too is told beside it.
func TestAQuotaBehindAnotherRefusalIsReported(t *testing.T) {
	refused := func(quota, words string) string {
		return `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r, namespace: shop, uid: r}, spec: ` +
			`{replicas: 2, ` +
			`template: {spec: {containers: [{name: a, resources: {requests: {cpu: 500m}, limits: {cpu: "1"}}}]}}}, ` +
			`status: ` +
			`{replicas: 0}}
---
{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, type: Warning, reason: FailedCreate, message: '` +
			words + `', lastTimestamp: "2026-05-01T11:59:30Z", involvedObject: {kind: ReplicaSet, name: r, ` +
			`namespace: shop}}
---
{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: shop}, ` + quota + `}`
	}
	const other = "maximum cpu usage per Container is 300m"
	for _, c := range []area{
		{"Pods", refused("status: {hard: {pods: 3}, used: {pods: 3}}", other), "ReplicaSet shop r",
			"QuotaExceeded ResourceQuota/q spec.hard.pods 3 4 broken", "asks for 1 more"},
		{"cpu", refused("status: {hard: {requests.cpu: 1}, used: {requests.cpu: 600m}}", other), "ReplicaSet shop r",
			"QuotaExceeded ResourceQuota/q spec.hard.requests.cpu 1 1100m broken", ""},
		{"limits", refused("status: {hard: {limits.cpu: 1}, used: {limits.cpu: 600m}}", other), "ReplicaSet shop r",
			"QuotaExceeded ResourceQuota/q spec.hard.limits.cpu 1 1600m broken", ""},
		{"exactly enough", refused("status: {hard: {cpu: 1}, used: {cpu: 500m}}", other), "ReplicaSet shop r",
			"no QuotaExceeded", ""},
		{"of something else", refused("status: {hard: {services: 0}, used: {services: 0}}", other), "ReplicaSet shop r",
			"no QuotaExceeded", ""},
		{"of a scope", refused("spec: {scopes: [BestEffort]}, status: {hard: {pods: 0}, used: {pods: 0}}", other),
			"ReplicaSet shop r", "no QuotaExceeded", ""},
	} {
		c.check(t)
	}
}

// Of a selector of which one label has another value, while all others are there, that value is
// wanted, where there is one only.
func TestASelectorOfAnotherVersion(t *testing.T) {
	pods := func(versions ...string) string {
		out := `{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {selector: {app: web, ` +
			`version: ` +
			"v1}, ports: [{port: 80}]}}\n---\n"
		for _, v := range versions {
			out += `{apiVersion: v1, kind: Pod, metadata: {name: web-` + v + `, namespace: shop, labels: {app: web, ` +
				`version: ` +
				v + "}}}\n---\n"
		}
		return out
	}
	const none = "SelectsNothing Service/s spec.selector app=web,version=v1 "
	for _, c := range []area{
		{"one other", pods("green", "green"), "Service shop s", none + "version=green broken", ""},
		{"two others", pods("green", "blue"), "Service shop s", none + "- broken", ""},
	} {
		c.check(t)
	}
}
