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
