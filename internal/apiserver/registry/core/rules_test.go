package core

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/test/expect"
)

var errorText = expect.ErrorTexts

func volumeOf(change func(*v1.PersistentVolume)) *v1.PersistentVolume {
	p := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: v1.PersistentVolumeSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Capacity:    v1.ResourceList{"storage": resource.MustParse("1Gi")},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d",
			VolumeHandle: "h"}},
	}}
	change(p)
	defaultVolume(p)
	return p
}

func TestVolumeRules(t *testing.T) {
	zone := func(key string) *v1.VolumeNodeAffinity {
		e := []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}}
		return &v1.VolumeNodeAffinity{
			Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: e}}}}
	}
	for name, c := range map[string]struct {
		change func(*v1.PersistentVolume)
		want   string
	}{
		"plain": {func(*v1.PersistentVolume) {}, ""},
		"negative": {func(p *v1.PersistentVolume) { p.Spec.Capacity["storage"] = resource.MustParse("-1") },
			"spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity\nspec.capacity[storage]: " +
				"Invalid value: \"-1\": must be greater than zero"},
		"class without a name": {func(p *v1.PersistentVolume) { p.Spec.VolumeAttributesClassName = new("") },
			"spec.volumeAttributesClassName: Required value: an empty string is disallowed"},
		"class without a driver": {func(p *v1.PersistentVolume) {
			p.Spec.VolumeAttributesClassName, p.Spec.CSI, p.Spec.HostPath = new("a"), nil,
				&v1.HostPathVolumeSource{Path: "/a"}
		}, "spec.csi: Required value: has to be specified when using volumeAttributesClassName"},
		"two modes, one unknown": {func(p *v1.PersistentVolume) {
			p.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod, "X"}
		}, `spec.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany",` +
			` "ReadWriteOnce", "ReadWriteOncePod"`},
	} {
		if got := errorText(validateVolume(volumeOf(c.change))); got != c.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, c.want)
		}
	}
	old := volumeOf(func(p *v1.PersistentVolume) {
		p.Spec.NodeAffinity, p.Spec.VolumeAttributesClassName = zone(v1.LabelFailureDomainBetaZone), new("a")
	})
	now := old.DeepCopy()
	now.Spec.NodeAffinity, now.Spec.CSI.ControllerExpandSecretRef = zone(v1.LabelTopologyZone),
		&v1.SecretReference{Name: "a", Namespace: "b"}
	if got := errorText(validateVolumeUpdate(now, old)); got != "" {
		t.Errorf("validateVolumeUpdate(now, old) = %q, want nothing", got)
	}
	now.Spec.NodeAffinity, now.Spec.VolumeAttributesClassName = zone(v1.LabelTopologyRegion), nil
	if got := errorText(validateVolumeUpdate(now, old)); !strings.Contains(got, "nodeAffinity: Invalid value: ") ||
		!strings.Contains(got, ": field is immutable, except for updating from beta label to GA") ||
		!strings.Contains(got,
			"spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden") {
		t.Errorf(`got %v, want it with "nodeAffinity: Invalid value:", with ": field is immutable, except for `+
			`updating from beta la…" and with "spec.volumeAttributesClassName: Forbidden: update from…"`, got)
	}
	inline := errorText(ValidateInlineVolume(&old.Spec, field.NewPath("spec")))
	if inline != "spec.capacity: Forbidden: may not be specified in the context of inline "+
		"volumes\nspec.nodeAffinity: Forbidden: may not be specified in the context of inline volumes" {
		t.Errorf(`got %v, want inline "spec.capacity: Forbidden: may not be specified in the …"`, inline)
	}
}

func TestClaimRules(t *testing.T) {
	claim := func(change func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
		c := &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{"storage": resource.MustParse("1Gi")}},
		}}
		change(c)
		defaultClaim(c)
		return c
	}
	const key = v1.BetaStorageClassAnnotation
	annotated := claim(func(c *v1.PersistentVolumeClaim) { c.Annotations = map[string]string{key: "fast"} })
	moved := claim(func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("fast") })
	if got := errorText(validateClaimUpdate(moved, annotated)); got != "" {
		t.Errorf("validateClaimUpdate = %q, want nothing", got)
	}
	other := claim(func(c *v1.PersistentVolumeClaim) { c.Annotations = map[string]string{key: "slow"} })
	if got, want := errorText(validateClaimUpdate(other, annotated)),
		`metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: "slow": field is `+
			`immutable`; got != want {
		t.Errorf("validateClaimUpdate = %q, want %q", got, want)
	}
	bound := claim(func(c *v1.PersistentVolumeClaim) {
		c.Status.Phase, c.Spec.VolumeAttributesClassName = v1.ClaimBound, new("a")
	})
	now := bound.DeepCopy()
	now.Spec.VolumeAttributesClassName = new("b")
	if got := errorText(validateClaimUpdate(now, bound)); got != "" {
		t.Errorf("validateClaimUpdate(now, bound) = %q, want nothing", got)
	}
	for _, class := range []*string{nil, new("")} {
		now.Spec.VolumeAttributesClassName = class
		if got := errorText(validateClaimUpdate(now, bound)); got != "" {
			t.Errorf("validateClaimUpdate(now, bound) = %q, want nothing before a class was applied", got)
		}
	}
	bound.Status.CurrentVolumeAttributesClassName = new("a")
	if got, want := errorText(validateClaimUpdate(now, bound)), "spec.volumeAttributesClassName: Forbidden: update to "+
		"empty string is forbidden when status.currentVolumeAttributesClassName is not nil"; got != want {
		t.Errorf("validateClaimUpdate(now, bound) = %q, want %q", got, want)
	}
	now.Spec.VolumeAttributesClassName = nil
	if got, want := errorText(validateClaimUpdate(now, bound)), "spec.volumeAttributesClassName: Forbidden: update to "+
		"nil is forbidden when status.currentVolumeAttributesClassName is not nil"; got != want {
		t.Errorf("validateClaimUpdate(now, bound) = %q, want %q", got, want)
	}
	now = bound.DeepCopy()
	now.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{"cpu": "Odd"}
	now.Status.AllocatedResources = v1.ResourceList{"storage": resource.MustParse("-1")}
	if got := errorText(validateClaimStatus(now, bound)); !strings.HasPrefix(got,
		`status.allocatedResourceStatuses: Unsupported value: "cpu": supported values: "storage"`) ||
		!strings.HasSuffix(got,
			"status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity") {
		t.Errorf(`got %v, want it beginning with 'status.allocatedResourceStatuses: Unsupported value: "…' and it `+
			`ending in "status.allocatedResources[storage]: Invalid value: -1:…"`, got)
	}
}

// A data source in another namespace is dropped, unless the stored claim names one by reference:
// then it is refused. A group that the stored one names is not validated again.
func TestDataSourceOfAChangedClaim(t *testing.T) {
	claim := func(s *v1.TypedObjectReference) *v1.PersistentVolumeClaim {
		c := &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{
			AccessModes:   []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			DataSourceRef: s,
			Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{"storage": resource.MustParse("1Gi")}},
		}}
		podspec.CopyDataSource(&c.Spec)
		return c
	}
	plain := &v1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "a"}
	other := plain.DeepCopy()
	other.Namespace = new("other")
	dropped, kept := claim(nil), claim(plain)
	dropped.Spec.DataSourceRef, kept.Spec.DataSourceRef = other.DeepCopy(), other.DeepCopy()
	dropCrossNamespace(dropped, claim(nil))
	if dropped.Spec.DataSourceRef != nil {
		t.Errorf("got %v, want no reference", dropped.Spec.DataSourceRef)
	}
	dropCrossNamespace(kept, claim(plain))
	want := "may not be specified when dataSourceRef.namespace is specified"
	if got := errorText(validateClaimUpdate(kept, claim(plain))); !strings.Contains(got, want) {
		t.Errorf("validateClaimUpdate = %q, want it with %q", got, want)
	}
	odd := claim(&v1.TypedObjectReference{APIGroup: new("Bad_"), Kind: "X", Name: "a"})
	if got := errorText(validateClaimUpdate(odd.DeepCopy(), odd)); got != "" {
		t.Errorf("validateClaimUpdate = %q, want nothing", got)
	}
}

func TestLimitsAndQuotas(t *testing.T) {
	l := &v1.LimitRange{Spec: v1.LimitRangeSpec{Limits: []v1.LimitRangeItem{{
		Type: v1.LimitTypeContainer, Default: v1.ResourceList{"example.com/gpu": resource.MustParse("2")},
		DefaultRequest: v1.ResourceList{"example.com/gpu": resource.MustParse("1")},
	}}}}
	if got, want := errorText(validateLimitRange(l)),
		`spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal to `+
			`defaultRequest value 1 in example.com/gpu`; got != want {
		t.Errorf("validateLimitRange(l) = %q, want %q", got, want)
	}
	q := &v1.ResourceQuota{Spec: v1.ResourceQuotaSpec{Scopes: []v1.ResourceQuotaScope{v1.ResourceQuotaScopeBestEffort,
		v1.ResourceQuotaScopeTerminating}}}
	now := q.DeepCopy()
	now.Spec.Scopes[0], now.Spec.Scopes[1] = now.Spec.Scopes[1], now.Spec.Scopes[0]
	if got := errorText(validateQuota(now, q)); got != "" {
		t.Errorf("validateQuota(now, q) = %q, want nothing", got)
	}
	exists := func(s v1.ResourceQuotaScope) v1.ScopedResourceSelectorRequirement {
		return v1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: v1.ScopeSelectorOpExists}
	}
	now = &v1.ResourceQuota{
		Spec: v1.ResourceQuotaSpec{
			ScopeSelector: &v1.ScopeSelector{MatchExpressions: []v1.ScopedResourceSelectorRequirement{
				exists(v1.ResourceQuotaScopeTerminating), exists(v1.ResourceQuotaScopeNotTerminating),
			}}}}
	if got := errorText(validateQuota(now, nil)); !strings.HasSuffix(got, "conflicting scopes") {
		t.Errorf(`got %v, want it ending in "conflicting scopes"`, got)
	}
}

// TestEventsStay: through events.k8s.io only the series of an Event may change; the core group lets
// all of it change.
func TestEventsStay(t *testing.T) {
	at := metav1.NewMicroTime(time.Unix(1, 0))
	old := &v1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"}, EventTime: at, Type: "Normal", Reason: "R",
		Action:              "A",
		ReportingController: "example.com/c", ReportingInstance: "i",
	}
	now := old.DeepCopy()
	now.Series, now.Reason = &v1.EventSeries{Count: 2, LastObservedTime: at}, "Other"
	fresh := request.WithRequestInfo(context.Background(), &request.RequestInfo{APIGroup: "events.k8s.io"})
	if got := errorText(validateEvent(fresh, now, old)); !strings.HasPrefix(got,
		`reason: Invalid value: "Other": field is immutable`) || strings.Contains(got, "series") {
		t.Errorf(`got %v, want it beginning with 'reason: Invalid value: "Other": field is immutable' and without `+
			`series`, got)
	}
	if got := errorText(validateEvent(request.WithRequestInfo(context.Background(), &request.RequestInfo{}), now,
		old)); got != "" {
		t.Errorf("validateEvent = %q, want nothing", got)
	}
	now.Reason, now.Series.Count = "R", 1
	if got, want := errorText(validateEvent(fresh, now, old)),
		`series.count: Invalid value: "": should be at least 2`; got != want {
		t.Errorf("validateEvent(fresh, now, old) = %q, want %q", got, want)
	}
}
