package finding

import (
	"strings"
	"testing"
)

// Of an object in a namespace that was not read nothing is claimed, until it was asked for by name.
func TestUnreadObjectsAreNotMissing(t *testing.T) {
	binding := Object{"RoleBinding", "shop", "b"}
	account := Object{"ServiceAccount", "other", "a"}
	c := clusterOf(t, `read: ServiceAccount Role Service Pod
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r, namespace: shop}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b, namespace: shop},
 roleRef: {kind: Role, name: r, apiGroup: rbac.authorization.k8s.io},
 subjects: [{kind: ServiceAccount, name: a, namespace: other}]}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w},
 webhooks: [{name: w.example.com, clientConfig: {service: {name: s, namespace: other}}}]}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {containers: [{name: c}],
 affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{namespaces: [other], topologyKey: zone,
 labelSelector: {matchLabels: {app: db}}}]}}}}`)
	c.Namespace = "shop"
	about := []Object{binding, {"ValidatingWebhookConfiguration", "", "w"}, {"Pod", "shop", "p"}}
	for _, o := range about {
		if got := Of(c, o); len(got) != 0 {
			t.Errorf("%s: got %+v, want nothing: namespace other was not read", o, got)
		}
	}
	if got := c.Unknown(binding); len(got) != 1 || got[0] != account {
		t.Errorf("got %v to be asked for, want %v", got, account)
	}
	c.Asked = map[Object]bool{account: true}
	if got := Of(c, binding); len(got) != 1 || got[0].Code != "ReferenceMissing" || got[0].Value != "a" {
		t.Errorf("asked for in vain: got %+v, want ReferenceMissing", got)
	}
	c.Namespace = ""
	for _, o := range about {
		if got := Of(c, o); len(got) == 0 {
			t.Errorf("%s: got nothing, want a finding: all namespaces were read", o)
		}
	}
}

// Two workloads with one fault each are two causes.
func TestEqualFaultsOfTwoWorkloadsAreTwoCauses(t *testing.T) {
	job := `{apiVersion: batch/v1, kind: Job, metadata: {name: NAME, namespace: shop, uid: NAME},
 spec: {backoffLimit: 0},
 status: {conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: m}]}}`
	c := clusterOf(t, strings.ReplaceAll(job, "NAME", "one")+"\n---\n"+strings.ReplaceAll(job, "NAME", "two"))
	got := All(c, "shop")
	if len(got) != 2 || got[0].Object == got[1].Object {
		t.Errorf("got %+v, want one finding of each Job", got)
	}
}

// A short value does not count as told because it stands somewhere in a text.
func TestShortValuesNeedTheirField(t *testing.T) {
	f := Finding{Field: "spec.minAvailable", Value: "1"}
	for text, want := range map[string]bool{"10 Pods wait": false, "minAvailable 1 lets none go": true} {
		if got := f.Names(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
