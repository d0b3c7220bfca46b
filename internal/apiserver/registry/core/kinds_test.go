package core

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

func TestNamespace(t *testing.T) {
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	defaultNamespace(ns)
	prepareNamespace(ns)
	if ns.Labels[v1.LabelMetadataName] != "a" || ns.Status.Phase != v1.NamespaceActive || len(ns.Spec.Finalizers) != 1 {
		t.Errorf("got %+v, want Labels a, Phase NamespaceActive and 1 in Finalizers", ns)
	}
	now := metav1.NewTime(time.Unix(5, 0))
	foreground := metav1.DeletePropagationForeground
	terminate(ns, &metav1.DeleteOptions{PropagationPolicy: &foreground}, now)
	if ns.Status.Phase != v1.NamespaceTerminating || ns.DeletionTimestamp == nil || len(ns.Finalizers) != 1 ||
		ns.Finalizers[0] != metav1.FinalizerDeleteDependents {
		t.Errorf("got %+v, want Phase NamespaceTerminating, 1 in Finalizers and Finalizers[0] "+
			"FinalizerDeleteDependents", ns)
	}
	if namespaceIsEmpty(context.Background(), "", ns, ns) {
		t.Error("spec.finalizers holds the namespace")
	}
	ns.Spec.Finalizers, ns.Finalizers = nil, nil
	if !namespaceIsEmpty(context.Background(), "", ns, ns) {
		t.Error("nothing holds the namespace any more")
	}
}

func TestSecret(t *testing.T) {
	s := &v1.Secret{Data: map[string][]byte{"a": []byte("old"), "b": nil}, StringData: map[string]string{"a": "new"}}
	defaultSecret(s)
	if string(s.Data["a"]) != "new" || s.StringData != nil || s.Type != v1.SecretTypeOpaque {
		t.Errorf("got %+v, want Data[a] new, no StringData and Type SecretTypeOpaque", s)
	}
	s.Immutable = new(true)
	now := s.DeepCopy()
	now.Data["c"], now.Type = nil, "x"
	if got, want := fmt.Sprint(validateSecretUpdate(now, s)),
		`[type: Invalid value: "x": field is immutable data: Forbidden: field is immutable when `+"`immutable`"+
			` is set]`; got != want {
		t.Errorf("validateSecretUpdate(now, s) = %q, want %q", got, want)
	}
}

// TestTableRows holds the cells of kinds whose line says something of its own.
func TestTableRows(t *testing.T) {
	opt := resourcedef.RowOptions{Now: metav1.NewTime(time.Unix(100, 0))}
	at := func(s int64) metav1.Time { return metav1.NewTime(time.Unix(s, 0)) }
	e := &v1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, Type: "Normal", Reason: "R", Message: " m\n", FirstTimestamp: at(40),
		LastTimestamp: at(95), Count: 3,
		InvolvedObject: v1.ObjectReference{Kind: "Pod", Name: "p", FieldPath: "spec.containers{c}"},
		Source:         v1.EventSource{Component: "kubelet", Host: "n"},
	}
	q := &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Status: v1.ResourceQuotaStatus{
		Hard: v1.ResourceList{"pods": resource.MustParse("5"), "limits.cpu": resource.MustParse("2")},
		Used: v1.ResourceList{"pods": resource.MustParse("1")},
	}}
	ep := &endpointsV1{ObjectMeta: metav1.ObjectMeta{Name: "ep"}, Subsets: []endpointSubset{{
		Addresses: []v1.EndpointAddress{{IP: "1.1.1.1"}, {IP: "1.1.1.2"}},
		Ports:     []v1.EndpointPort{{Port: 80}, {Port: 443}},
	}}}
	c := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: "v",
			StorageClassName: new("fast")},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound,
			Capacity:    v1.ResourceList{"storage": resource.MustParse("1Gi")},
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}},
	}
	for _, x := range []struct {
		got  []any
		want string
	}{
		{eventRow(e, opt), "[5s Normal R pod/p spec.containers{c} kubelet, n m 60s 3 e]"},
		{quotaRow(q, opt), "[q pods: 1/5 limits.cpu: 0/2 <unknown>]"},
		{endpoints().Table.Row(ep, opt), "[ep 1.1.1.1:80,1.1.1.2:80,1.1.1.1:443 + 1 more... <unknown>]"},
		{claimRow(c, opt), "[c Bound v 1Gi RWO fast <unset> <unknown> <unset>]"},
	} {
		if got := fmt.Sprint(x.got); got != x.want {
			t.Errorf("got  %s\nwant %s", got, x.want)
		}
	}
}
