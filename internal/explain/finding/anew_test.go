package finding

import (
	"slices"
	"strings"
	"testing"
)

// remedyRow is a cluster, an object, what one of its findings is ("CODE FIELD VALUE", or "no
// CODE"), and words of its first remedy's commands.
type remedyRow struct{ name, cluster, of, want, run string }

func expectRemedies(t *testing.T, rows []remedyRow) {
	t.Helper()
	for _, x := range rows {
		parts := strings.Fields(x.of)
		var have []string
		var found *Finding
		for _, f := range Of(clusterOf(t, x.cluster), Object{parts[0], strings.Trim(parts[1], "-"), parts[2]}) {
			line := f.Code + " " + f.Field + " " + f.Value
			if have = append(have, line); line == x.want {
				found = &f
			}
		}
		code, none := strings.CutPrefix(x.want, "no ")
		switch {
		case none && slices.ContainsFunc(have, func(s string) bool { return strings.HasPrefix(s, code+" ") }),
			!none && found == nil:
			t.Errorf("%s: got\n  %s\nwant\n  %s", x.name, strings.Join(have, "\n  "), x.want)
		case none || x.run == "":
		case len(found.Remedies) == 0:
			t.Errorf("%s: got no remedy, want %s", x.name, x.run)
		default:
			if run := strings.Join(found.Remedies[0].Run, "\n"); !strings.Contains(run, x.run) {
				t.Errorf("%s: got the first remedy %q (%s), want %s", x.name, found.Remedies[0].Say, run, x.run)
			}
		}
	}
}

// What nobody can change is made anew: a claim that is not bound, with what it names; a template of
// claims for devices, with the Pods that have one of it.
func TestWhatCannotBeChangedIsMadeAnew(t *testing.T) {
	claim := func(spec, phase string) string {
		return "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-db-1, namespace: shop}, spec: {" +
			"accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, " + spec + "}, status: {phase: " +
			phase + "}}\n---\n"
	}
	class := func(name, more string) string {
		return "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: " + name + more +
			"}, provisioner: d.example.com}\n---\n"
	}
	const isDefault = `, annotations: {storageclass.kubernetes.io/is-default-class: "true"}`
	const set = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop}, spec: {
 volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: slow}}]}}
---
`
	const volume = `{apiVersion: v1, kind: PersistentVolume, metadata: {name: v1}, spec: {storageClassName: manual,
 accessModes: [ReadWriteMany], capacity: {storage: 1Gi}}}
---
`
	const of, missing = "PersistentVolumeClaim shop data-db-1", "ReferenceMissing spec.storageClassName fast"
	fast := claim("storageClassName: fast", "Pending")
	source := claim("storageClassName: slow, dataSource: {kind: PersistentVolumeClaim, name: data-db-2}", "Pending") +
		strings.ReplaceAll(claim("", "Bound"), "data-db-1", "data-db-0") + class("slow", "")
	const devices = `{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: gpu, ` +
		`namespace: shop},
 spec: {spec: {devices: {requests: [{name: g, exactly: {deviceClassName: a.example.org}}]}}}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: b.example.com}}
---
{apiVersion: v1, kind: Pod, metadata: {name: train, namespace: shop}, spec: {resourceClaims: [
 {name: g, resourceClaimTemplateName: gpu}], containers: [{name: a}]}}
`
	expectRemedies(t, []remedyRow{
		{"class of the StatefulSet's template", fast + set + class("slow", "") + class("other", isDefault), of, missing,
			"kubectl -n shop delete persistentvolumeclaim data-db-1"},
		{"the default class", fast + class("slow", "") + class("other", isDefault), of, missing,
			`"path":"/spec/storageClassName","value":"other"}]' -o json | kubectl replace --force`},
		{"the only class", fast + class("slow", ""), of, missing, `"value":"slow"`},
		{"a class of that name is made", fast + class("fase", ""), of, missing, `"value":"fase"`},
		{"a bound claim cannot be made anew", claim("storageClassName: fast", "Bound"), of, "no ReferenceMissing", ""},
		{"class and mode of the chosen volume", claim("volumeName: v1, storageClassName: slow", "Pending") +
			class("slow", "") + volume, of, "VolumeUnfit spec.accessModes ReadWriteOnce",
			`{"op":"add","path":"/spec/storageClassName","value":"manual"},{"op":"add","path":"/spec/accessModes",` +
				`"value":["ReadWriteMany"]}`},
		{"both names of the source", source, of, "ReferenceMissing spec.dataSource data-db-2",
			`"path":"/spec/dataSourceRef/name","value":"data-db-0"`},
		{"the provisioner is not to blame", source, of, "no ProvisionerSilent", ""},
		{"Jobs of the template as it was", `read: ServiceAccount
{apiVersion: v1, kind: ServiceAccount, metadata: {name: backup, namespace: shop}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: c, namespace: shop, uid: u}, spec: {schedule: "* * * * *",
 jobTemplate: {spec: {template: {spec: {serviceAccountName: backups, containers: [{name: a}]}}}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: c-1, namespace: shop, ownerReferences: [{apiVersion: batch/v1,
 kind: CronJob, name: c, uid: u, controller: true}]}}`, "CronJob shop c",
			"ReferenceMissing spec.jobTemplate.spec.template.spec.serviceAccountName backups",
			"kubectl -n shop delete job c-1"},
		{"the Pod after its claim's template", devices, "ResourceClaimTemplate shop gpu",
			"ReferenceMissing spec.spec.devices.requests[0].exactly.deviceClassName a.example.org",
			"kubectl -n shop get pod train -o json | kubectl replace --force"},
	})
}

// What a rule compares has a remedy that can be run: a LimitRange's ratio, a slice of another
// Service's name, a kind that is taken, Jobs that are replaced.
func TestComparedNumbersAndNamesHaveCommands(t *testing.T) {
	ratio := func(resource, request, limit string) string {
		return `{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: shop}, spec: {limits: [{type: ` +
			`Container,
 maxLimitRequestRatio: {` + resource + `: 2}}]}}
---
` + shopDeployment + `{template: {spec: {containers: [{name: a, resources: {requests: {` + resource + `: ` + request +
			`}, limits: {` + resource + `: ` + limit + `}}}]}}}}`
	}
	const at = "OutOfLimitRange spec.template.spec.containers[0].resources.limits."
	cron := func(policy, done string) string {
		return `read: Job
{apiVersion: batch/v1, kind: CronJob, metadata: {name: c, namespace: shop, creationTimestamp: "2026-05-01T11:00:00Z"},
 spec: {schedule: "* * * * *", concurrencyPolicy: ` + policy + `}, status: {active: [{name: c-1}],
 lastScheduleTime: "2026-05-01T11:59:00Z"` + done + `}}`
	}
	ordered := func(probe, policy string) string {
		return `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: kv, namespace: shop}, spec: {replicas: 2,
 podManagementPolicy: ` + policy + `, template: {spec: {containers: [{name: a, readinessProbe: ` + probe + `}]}}}}`
	}
	const replaced = "ReplacedBeforeEnd spec.concurrencyPolicy Replace"
	expectRemedies(t, []remedyRow{
		{"memory ratio", ratio("memory", "64Mi", "256Mi"), "Deployment shop d", at + "memory 256Mi",
			`"requests":{"memory":"128Mi"}`},
		{"cpu ratio", ratio("cpu", "100m", "1"), "Deployment shop d", at + "cpu 1", `"requests":{"cpu":"500m"}`},
		{"within the ratio", ratio("cpu", "500m", "1"), "Deployment shop d", "no OutOfLimitRange", ""},
		{"slice of another name", `{apiVersion: v1, kind: Service, metadata: {name: legacydb, namespace: shop}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: s, namespace: shop,
 labels: {kubernetes.io/service-name: legacy-db}}}`, "Service shop legacydb", "NoSelector spec.selector ",
			"label endpointslice s --overwrite kubernetes.io/service-name=legacydb"},
		{"Jobs that are all replaced", cron("Replace", ""), "CronJob shop c", replaced, `"concurrencyPolicy":"Forbid"`},
		{"one has ended lately", cron("Replace", `, lastSuccessfulTime: "2026-05-01T11:58:50Z"`), "CronJob shop c",
			"no ReplacedBeforeEnd", ""},
		{"the first Pod waits for the second", ordered(`{exec: {command: [sh, -c, "nslookup kv-1.kv"]}}`,
			"OrderedReady"),
			"StatefulSet shop kv", "OrderedWait spec.podManagementPolicy OrderedReady", "--cascade=orphan"},
		{"it waits for itself", ordered(`{exec: {command: [ping, kv-0.kv]}}`, "OrderedReady"), "StatefulSet shop kv",
			"no OrderedWait", ""},
		{"for one that is never made", ordered(`{exec: {command: [ping, kv-2.kv]}}`, "OrderedReady"),
			"StatefulSet shop kv", "no OrderedWait", ""},
		{"for another set's", ordered(`{exec: {command: [ping, my-kv-1.kv]}}`, "OrderedReady"), "StatefulSet shop kv",
			"no OrderedWait", ""},
		{"all are made at once", ordered(`{exec: {command: [ping, kv-1.kv]}}`, "Parallel"), "StatefulSet shop kv",
			"no OrderedWait", ""},
		{"a mode that is not served", `read: CSIDriver
{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, type: Warning, reason: ProvisioningFailed,
 lastTimestamp: "2026-05-01T11:59:50Z", involvedObject: {kind: PersistentVolumeClaim, namespace: shop, name: c},
 message: "access mode ReadWriteMany is not served"}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: s}, provisioner: d.example.com}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: shop}, spec: {storageClassName: s,
 accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}`,
			"PersistentVolumeClaim shop c", "ProvisionerSilent spec.accessModes[0] ReadWriteMany",
			`"path":"/spec/accessModes/0","value":"ReadWriteOnce"`},
		{"they may run together", cron("Allow", ""), "CronJob shop c", "no ReplacedBeforeEnd", ""},
	})
}

// The peer of a policy that was probably meant is told by the one thing in which it differs.
func TestTheNearestPeerIsNamed(t *testing.T) {
	base := func(policy, labels string) string {
		return `read: Pod EndpointSlice
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {clusterIP: 10.0.0.9, selector: {app: db},
 ports: [{port: 80, targetPort: 8080}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, labels: {app: db}}, spec: {containers: [{name: a}]},
 status: {podIP: 10.1.0.7}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: ` + labels + `}}, spec: {containers: [
 {name: a, args: ["http://db:80"]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: shop}, spec: {` + policy + `}}`
	}
	egress := func(to string) string {
		return base(`podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{to: [`+to+`]}]`, "web")
	}
	for _, x := range []struct{ cluster, field, text, run string }{
		{egress(`{namespaceSelector: {matchLabels: {name: shop}}}`), "spec.egress[0].to[0].namespaceSelector",
			"namespace shop has no label name", "kubectl label namespace shop --overwrite name=shop"},
		{egress(`{namespaceSelector: {matchLabels: {team: b}}}`), "spec.egress[0].to[0].namespaceSelector",
			"namespace shop has team=a", "team=b"},
		{egress(`{podSelector: {matchLabels: {app: dbs}}}`), "spec.egress[0].to[0].podSelector",
			"selects Pods with app=dbs, and these have app=db", "/spec/egress/-"},
		{egress(`{ipBlock: {cidr: 0.0.0.0/0, except: [10.1.0.0/16]}}`), "spec.egress[0].to[0].ipBlock",
			"except 10.1.0.0/16 (except[0]), which has the address 10.1.0.7", "/spec/egress/-"},
		{egress(`{ipBlock: {cidr: 192.168.0.0/16}}`), "spec.egress", "no rule of NetworkPolicy p", "/spec/egress/-"},
		{base(`podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: webs}}}]}]`,
			"web"), "spec.ingress[0].from[0].podSelector", "selects Pods with app=webs, and these have app=web",
			"/spec/ingress/-"},
	} {
		var f *Finding
		for _, y := range Of(clusterOf(t, x.cluster), Object{"Pod", "shop", "web"}) {
			if y.Code == "PolicyShutsOut" {
				f = &y
			}
		}
		if f == nil {
			t.Errorf("%s: got no PolicyShutsOut, want one", x.field)
			continue
		}
		run := ""
		if len(f.Remedies) > 0 {
			run = strings.Join(f.Remedies[0].Run, " ")
		}
		if !strings.Contains(f.Message+f.Field, x.field) || !strings.Contains(f.Message, x.text) ||
			!strings.Contains(run, x.run) {
			t.Errorf("got %s %q %q, want %s %q %q", f.Field, f.Message, run, x.field, x.text, x.run)
		}
	}
}

// A right that an account lacks is nearly given: to another account, or by a rule of another verb,
// resource or group.
func TestTheRightThatIsNearlyGiven(t *testing.T) {
	cluster := func(subject, rule string) string {
		return `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r, namespace: shop},
 rules: [` + rule + `]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b, namespace: shop},
 roleRef: {kind: Role, name: r}, subjects: [` + subject + `]}`
	}
	const full = `{apiGroups: [""], resources: [pods], verbs: [get, list]}`
	const own = `{kind: ServiceAccount, name: app, namespace: shop}`
	for _, x := range []struct{ subject, rule, want, run string }{
		{`{kind: ServiceAccount, name: app, namespace: other}`, full, "RoleBinding b subjects[0].namespace other shop",
			`"path":"/subjects/0"`},
		{`{kind: ServiceAccount, name: aps, namespace: shop}`, full, "RoleBinding b subjects[0].name aps app", ""},
		{`{kind: User, name: app}`, full, "RoleBinding b subjects[0].kind User ServiceAccount", ""},
		{`{kind: ServiceAccount, name: someone, namespace: shop}`, full, "none", ""},
		{own, `{apiGroups: [""], resources: [pods], verbs: [get]}`, "Role r rules[0].verbs get list",
			"/rules/0/verbs/-"},
		{own, `{apiGroups: [""], resources: [pod], verbs: [get, list]}`, "Role r rules[0].resources pod pods", ""},
		{own, `{apiGroups: [apps], resources: [pods], verbs: [list]}`, "Role r rules[0].apiGroups apps ", ""},
		{own, `{apiGroups: [""], resources: [secrets], verbs: [list]}`, "none", ""},
	} {
		f, ok := clusterOf(t, cluster(x.subject, x.rule)).NearRight(Object{"ServiceAccount", "shop", "app"},
			Request{Verb: "list", Resource: "pods", Namespace: "shop"})
		got, run := "none", ""
		if ok {
			got = f.Object.Kind + " " + f.Object.Name + " " + f.Field + " " + f.Value + " " + f.Want
			run = strings.Join(f.Remedies[0].Run, " ")
		}
		if got != x.want || !strings.Contains(run, x.run) {
			t.Errorf("%s, %s: got %s %q, want %s %q", x.subject, x.rule, got, run, x.want, x.run)
		}
	}
}
