package finding

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Each row is the words of a call of a webhook that failed, and the field, value and words by which
// the webhook is blamed.
//
// row: RST-10
func TestAFailedCallBlamesTheWebhooksField(t *testing.T) {
	const url = "https://127.0.0.1:9/x"
	for words, want := range map[string][3]string{
		`context deadline exceeded`: {"webhooks[0].timeoutSeconds", "7", "(7 s, timeoutSeconds)"},
		`tls: failed to verify certificate: x509: certificate signed by unknown authority`: {
			"webhooks[0].clientConfig.caBundle", "", "not of the authority in caBundle"},
		`x509: certificate is valid for example.com, not other`: {"webhooks[0].clientConfig.url", url,
			"for example.com, and it is asked by the name other"},
		`dial tcp 127.0.0.1:9: connect: connection refused`: {"webhooks[0].clientConfig.url", url,
			"nothing listens at its address"},
		`the server could not find the requested resource`: {"webhooks[0].clientConfig.url", url, "answers 404"},
		`an error on the server ("no database") has prevented the request from succeeding`: {
			"webhooks[0].clientConfig.url", url, "with 500 and the words no database"},
		`couldn't get version/kind; json parse error: invalid character '<'`: {"webhooks[0].clientConfig.url", url,
			"sends no AdmissionReview"},
		`something else`: {"webhooks[0].clientConfig.url", url, "keeps the Pods of Deployment d from being made"},
	} {
		c := clusterOf(t, fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, `+
			`type: Warning, reason: FailedCreate, lastTimestamp: "2026-05-01T11:59:50Z", involvedObject: {`+
			`kind: Deployment, namespace: shop, name: d}, message: %q}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}, webhooks: [{`+
			`name: w.example.com, timeoutSeconds: 7, clientConfig: {url: "%s"}}]}
---
`+shopDeployment+`{template: {spec: {containers: [{name: a}]}}}}`,
			`Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: `+words, url))
		list := Of(c, Object{"Deployment", "shop", "d"})
		i := slices.IndexFunc(list, func(f Finding) bool { return f.Code == "WebhookFails" })
		if i < 0 {
			t.Errorf("%s: got no WebhookFails among %d findings, want one", words, len(list))
			continue
		}
		f := list[i]
		got := [2]string{f.Field, f.Value}
		if got != [2]string{want[0], want[1]} || !strings.Contains(f.Message, want[2]) {
			t.Errorf("%s: got %q and %q, want %q", words, got, f.Message, want)
		}
		if run := strings.Join(f.Remedies[0].Run, ""); strings.HasSuffix(f.Field, "Seconds") != strings.Contains(run,
			`/webhooks/0/timeoutSeconds","value":30`) {
			t.Errorf("%s: got the remedy %q, want more time where that is wrong", words, run)
		}
	}
}

// Each row is a cluster, an object, and what one of its findings is: "CODE FIELD VALUE WANT" and
// words of its commands; "no CODE" for none.
//
// row: RST-10
func TestWhatNamesHaveBehindThem(t *testing.T) {
	pod := func(dns, text string) string {
		return webPod + `spec: {` + dns + `containers: [{name: a, args: ["` + text + `"]}]}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {clusterIP: 10.0.0.9}}`
	}
	none := func(search string) string {
		return `dnsPolicy: None, dnsConfig: {nameservers: [10.0.0.10], searches: [` + search + `]}, `
	}
	keyed := func(kind, from, more string) string {
		return webPod + `spec: {containers: [{name: a, env: [{name: X, valueFrom: {` + from + `: {name: one, ` +
			`key: k}}}]}]}
---
{apiVersion: v1, kind: ` + kind + `, metadata: {name: one, namespace: shop}, ` + more
	}
	other := `
---
{apiVersion: v1, kind: Secret, metadata: {name: two, namespace: shop}, data: {k: eA==}}`
	group := func(name string) string {
		return `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: b}, roleRef: {` +
			`kind: ClusterRole, name: view}, subjects: [{kind: Group, name: "` + name + `"}]}`
	}
	const web, bound = "Pod/web", "ClusterRoleBinding/b"
	for _, x := range []struct{ name, cluster, of, want, run string }{
		{"searches another namespace", pod(none("other.svc.cluster.local"), "http://db:80"), web,
			"SearchesElsewhere spec.dnsConfig.searches other.svc.cluster.local shop.svc.cluster.local",
			""},
		{"searches its own", pod(none("shop.svc.cluster.local"), "http://db:80"), web, "no SearchesElsewhere", ""},
		{"names the namespace", pod(none("other.svc.cluster.local"), "http://db.shop.svc.cluster.local:80"), web,
			"no SearchesElsewhere", ""},
		{"as kubelets do by default", pod("", "http://db:80"), web, "no SearchesElsewhere", ""},
		{"text in binaryData", keyed("ConfigMap", "configMapKeyRef", `binaryData: {k: eA==}}`), web,
			"KeyIsBinary spec.containers[0].env[0].valueFrom.configMapKeyRef.key k -",
			`{"data":{"k":"x"},"binaryData":{"k":null}}`},
		{"bytes in binaryData", keyed("ConfigMap", "configMapKeyRef", `binaryData: {k: gA==}}`), web,
			"KeyIsBinary spec.containers[0].env[0].valueFrom.configMapKeyRef.key k -", ""},
		{"in data", keyed("ConfigMap", "configMapKeyRef", `data: {k: x}}`), web, "no KeyIsBinary", ""},
		{"key of another Secret", keyed("Secret", "secretKeyRef", `data: {j: eA==}}`) + other, web,
			"KeyMissing spec.containers[0].env[0].valueFrom.secretKeyRef k j", `secretKeyRef/name","value":"two"`},
		{"nearly a group", group("system:authentcated"), bound,
			"SubjectUnknown subjects[0].name system:authentcated system:authenticated",
			`"value":"system:authenticated"`},
		{"a group", group("system:authenticated"), bound, "no SubjectUnknown", ""},
		{"a group of accounts", group("system:serviceaccounts:shop"), bound, "no SubjectUnknown", ""},
		{"somebody's own", group("authentcated"), bound, "no SubjectUnknown", ""},
	} {
		kind, name, _ := strings.Cut(x.of, "/")
		o := Object{Kind: kind, Name: name}
		if kind == "Pod" {
			o.Namespace = "shop"
		}
		code, _, _ := strings.Cut(strings.TrimPrefix(x.want, "no "), " ")
		got := "no " + code
		for _, f := range Of(clusterOf(t, x.cluster), o) {
			if f.Code != code {
				continue
			}
			want, runs := f.Want, ""
			if want == "" {
				want = "-"
			}
			got = strings.Join([]string{f.Code, f.Field, f.Value, want}, " ")
			for _, r := range f.Remedies {
				runs += strings.Join(r.Run, "\n")
			}
			if !strings.Contains(runs, x.run) {
				t.Errorf("%s: got the commands %q, want %q", x.name, runs, x.run)
			}
		}
		if got != x.want {
			t.Errorf("%s: got %q, want %q", x.name, got, x.want)
		}
	}
}

// Each row is what a level of Pod Security forbids, and the field, value and remedy.
//
// row: RST-10
func TestWhatALevelForbidsIsAField(t *testing.T) {
	for words, x := range map[string]struct{ spec, want, run string }{
		`forbidden sysctls (net.core.somaxconn)`: {
			`securityContext: {sysctls: [{name: net.core.somaxconn, value: "9"}]}, containers: [{name: a}]`,
			"spec.template.spec.securityContext.sysctls[0].name=net.core.somaxconn", `"op":"remove"`},
		`seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")`: {
			`containers: [{name: a, securityContext: {seccompProfile: {type: Unconfined}}}]`,
			"spec.template.spec.containers[0].securityContext.seccompProfile.type=Unconfined", `"RuntimeDefault"`},
		`restricted volume types (volume "v" uses restricted volume type "nfs")`: {
			`containers: [{name: a}], volumes: [{name: v, nfs: {server: s, path: /}}]`,
			"spec.template.spec.volumes[0].nfs=v", `emptyDir`},
	} {
		c := clusterOf(t, fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, `+
			`type: Warning, reason: FailedCreate, lastTimestamp: "2026-05-01T11:59:50Z", involvedObject: {`+
			`kind: Deployment, namespace: shop, name: d}, message: 'pods is forbidden: violates PodSecurity `+
			`"baseline:latest": %s'}
---
`+shopDeployment+`{template: {spec: {%s}}}}`, words, x.spec))
		got, runs := "", ""
		for _, f := range Of(c, Object{"Deployment", "shop", "d"}) {
			if f.Code == "PodSecurityViolated" && f.Object.Kind == "Deployment" {
				got = f.Field + "=" + f.Value
				for _, r := range f.Remedies {
					runs += strings.Join(r.Run, "\n")
				}
			}
		}
		if got != x.want || !strings.Contains(runs, x.run) {
			t.Errorf("%s: got %q and the commands %q, want %q and %q", words, got, runs, x.want, x.run)
		}
	}
}

// Each row is a cluster, an object, what one of its findings is ("CODE KIND FIELD VALUE WANT"), "no
// CODE" for none, and words of its message and commands.
//
// row: RST-10
func TestWhatStandsBehindARefusal(t *testing.T) {
	script := func(command string) string {
		return webPod + `spec: {containers: [{name: a, command: ` + command + `}]}`
	}
	shopPod := func(name, labels, ports string) string {
		return `
---
{apiVersion: v1, kind: Pod, metadata: {name: ` + name + `, namespace: shop, labels: {` + labels + `}}, spec: {` +
			`containers: [{name: a, ports: [` + ports + `]}]}}`
	}
	service := func(selector string) string {
		return `{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {selector: {` + selector +
			`}, ports: [{port: 80, targetPort: 8080}]}}`
	}
	opens := func(port string) string {
		return service("app: a") + shopPod("one", "app: a", `{name: web, containerPort: 8080}, {name: metrics, `+
			`containerPort: 9090}`) + `
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: shop}, spec: {podSelector: {` +
			`matchLabels: {app: a}}, policyTypes: [Ingress], ingress: [{ports: [{port: ` + port + `}]}]}}`
	}
	claimed := func(spec, more string) string {
		return `read: StorageClass PersistentVolume
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: shop, creationTimestamp: ` +
			`"2026-05-01T11:00:00Z"}, spec: {storageClassName: x, ` + spec + `accessModes: [ReadWriteOnce], ` +
			`resources: {requests: {storage: 5Gi}}}, status: {phase: Pending}}` + more
	}
	const volume = `
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {storageClassName: x, accessModes: ` +
		`[ReadWriteOnce], capacity: {storage: 1Gi}}}`
	const class = `
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: x}, provisioner: disks.example.com}`
	role := func(group, resource string) string {
		return `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r, namespace: shop}, ` +
			`rules: [{apiGroups: [` + group + `], resources: [` + resource + `], verbs: [get]}]}`
	}
	condition := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: shop}, spec: {replicas: 1, ` +
		`template: {spec: {containers: [{name: a}]}}}, status: {conditions: [{type: ReplicaFailure, status: "True", ` +
		`reason: FailedCreate, message: %q}]}}`
	for _, x := range []struct{ name, cluster, of, want, words string }{
		{"a label too many", service("app: a, tier: b") + shopPod("one", "app: a", ""), "Service s",
			"SelectsNothing Service spec.selector app=a,tier=b -",
			`Pod one has all of it but tier=b: it has no label tier`},
		{"a label too many, mended", service("app: a, tier: b") + shopPod("one", "app: a", ""), "Service s",
			"SelectsNothing Service spec.selector app=a,tier=b -", `{"spec":{"selector":{"tier":null}}}`},
		{"nothing of it", service("app: a, tier: b") + shopPod("one", "app: x", ""), "Service s",
			"SelectsNothing Service spec.selector app=a,tier=b -", "no Pod of namespace shop has that."},
		{"a port by another's name", opens("metrics"), "Service s",
			"PolicyDeniesPort NetworkPolicy spec.ingress[*].ports 8080 -", "Port 8080"},
		{"a port by its name", opens("web"), "Service s", "no PolicyDeniesPort", ""},
		{"a quota, by a condition", fmt.Sprintf(condition, `pods "d-1" is forbidden: exceeded quota: q, `+
			`requested: pods=1, used: pods=0, limited: pods=0`), "Deployment d",
			"QuotaExceeded ResourceQuota spec.hard.pods 0 1", "Quota q"},
		{"a mutation that cannot be applied", fmt.Sprintf(condition, `policy 'm' with binding 'b' denied request: `+
			`error applying patch: x`), "Deployment d",
			"DeniedByPolicy MutatingAdmissionPolicy spec.mutations error_applying_patch:_x -",
			"MutatingAdmissionPolicy m, bound by b"},
		{"words behind a script", script(`[sh, -c, sleep, "3600"]`), "Pod web",
			"ShellWord Pod spec.containers[0].command[2] sleep sleep_3600", `"value":["sh","-c","sleep 3600"]`},
		{"a script with parameters", script(`[sh, -c, "echo $1", x, y]`), "Pod web", "no ShellWord", ""},
		{"an operator in a probe", webPod + `spec: {containers: [{name: a, readinessProbe: {exec: {command: ` +
			`[test, -f, /x, "&&", "true"]}}}]}`, "Pod web",
			"ShellWord Pod spec.containers[0].readinessProbe.exec.command[3] && sh_-c", `"sh","-c"`},
		{"a script alone", script(`[sh, -c, "sleep 3600"]`), "Pod web", "no ShellWord", ""},
		{"selects what is to be made", claimed(`selector: {matchLabels: {a: b}}, `, class), "PersistentVolumeClaim c",
			"SelectsMade PersistentVolumeClaim spec.selector a=b -", "disks.example.com"},
		{"a class that only the volume has", claimed(`volumeName: v, `, volume), "PersistentVolumeClaim c",
			"VolumeUnfit PersistentVolumeClaim spec.resources.requests.storage 5Gi 1Gi", "names volume v"},
		{"such a class is not missing", claimed(`volumeName: v, `, volume), "PersistentVolumeClaim c",
			"no ReferenceMissing", ""},
		{"a class that nothing has", claimed("", ""), "PersistentVolumeClaim c",
			"ReferenceMissing PersistentVolumeClaim spec.storageClassName x -", ""},
		{"a group that Kubernetes had", role("extensions", "deployments"), "Role r",
			"GroupDiffers Role rules[0].apiGroups extensions apps", ""},
		{"a group that may come", role("shop.example.com", "carts"), "Role r",
			"ResourceUnknown Role rules[0].resources[0] carts -", "until what brings it is installed"},
	} {
		kind, name, _ := strings.Cut(x.of, " ")
		c := clusterOf(t, x.cluster)
		c.Served = Served{"": {"pods"}, "apps": {"deployments"}}
		code, _, _ := strings.Cut(strings.TrimPrefix(x.want, "no "), " ")
		got, text := "no "+code, ""
		for _, f := range Of(c, Object{kind, "shop", name}) {
			if f.Code != code {
				continue
			}
			words := []string{f.Code, f.Object.Kind, f.Field, f.Value, f.Want}
			for i, w := range words {
				if words[i] = strings.ReplaceAll(w, " ", "_"); w == "" {
					words[i] = "-"
				}
			}
			got, text = strings.Join(words, " "), f.Message
			for _, r := range f.Remedies {
				text += strings.Join(r.Run, "\n")
			}
		}
		if got != x.want || !strings.Contains(text, x.words) {
			t.Errorf("%s: got %q (%s), want %q (%s)", x.name, got, text, x.want, x.words)
		}
	}
}
