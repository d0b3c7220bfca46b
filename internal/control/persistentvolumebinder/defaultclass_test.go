package persistentvolumebinder

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// A claim without a class, for which there is no volume, gets the default class once there is one:
// of several the newest. One that says that it wants none keeps that.
// https://kubernetes.io/docs/concepts/storage/persistent-volumes/#retroactive-default-storageclass-assignment
func TestDefaultClassIsAssignedLater(t *testing.T) {
	old, young := class("p", storagev1.VolumeBindingImmediate), class("p", storagev1.VolumeBindingImmediate)
	old.Name, young.Name = "old", "young"
	for i, c := range []*storagev1.StorageClass{old, young} {
		c.CreationTimestamp = metav1.NewTime(time.Unix(int64(i), 0))
		c.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	}
	other := class("p", storagev1.VolumeBindingImmediate)
	in := In{Default: DefaultClass([]*storagev1.StorageClass{other, old, young})}
	unnamed := claim(func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil })
	if s := ForClaim(unnamed, in); s.Claim == nil || *s.Claim.Spec.StorageClassName != "young" {
		t.Errorf("got %+v, want the claim with the newest default class", s)
	}
	for name, c := range map[string]*v1.PersistentVolumeClaim{
		"no class": claim(func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("") }),
		"by annotation": claim(func(c *v1.PersistentVolumeClaim) {
			c.Spec.StorageClassName, c.Annotations = nil, map[string]string{v1.BetaStorageClassAnnotation: "c"}
		}),
	} {
		if s := ForClaim(c, in); s.Claim != nil {
			t.Errorf("%s: got the claim written as %+v, want it left", name, s.Claim.Spec)
		}
	}
	if s := ForClaim(unnamed, In{Default: DefaultClass([]*storagev1.StorageClass{other})}); s.Claim != nil {
		t.Errorf("got %+v without a default class, want the claim left", s)
	}
	free := vol("v", "1Gi", func(v *v1.PersistentVolume) { v.Spec.StorageClassName = "" })
	in.Ordered = []*v1.PersistentVolume{free}
	if s := ForClaim(unnamed, in); s.Volume == nil {
		t.Errorf("got %+v, want the volume without a class, which the claim may have", s)
	}
}

// Volumes and claims are counted as upstream's families do.
func TestVolumesAndClaimsAreCounted(t *testing.T) {
	driver := vol("a", "1Gi", func(v *v1.PersistentVolume) {
		v.Status.Phase, v.Spec.CSI = v1.VolumeBound, &v1.CSIPersistentVolumeSource{Driver: "d"}
		v.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	})
	pending := claim()
	bound := claim(func(c *v1.PersistentVolumeClaim) {
		c.Status.Phase, c.Spec.VolumeAttributesClassName = v1.ClaimBound, ptr.To("fast")
	})
	got := count([]*v1.PersistentVolume{driver, vol("b", "1Gi"), vol("c", "1Gi")},
		[]*v1.PersistentVolumeClaim{pending, pending, bound})
	want := map[series]int{
		{totalVolumes, 2, [3]string{"kubernetes.io/csi:d", "Block"}}: 1, {boundVolumes, 1, [3]string{"c"}}: 1,
		{totalVolumes, 2, [3]string{"N/A", "Filesystem"}}: 2, {unboundVolumes, 1, [3]string{"c"}}: 2,
		{unboundClaims, 3, [3]string{"ns", "c", ""}}: 2, {boundClaims, 3, [3]string{"ns", "c", "fast"}}: 1,
	}
	if !maps.Equal(got, want) {
		var text []string
		for k, n := range got {
			text = append(text, strings.Join(k.values[:], " "), string(rune('0'+n)))
		}
		slices.Sort(text)
		t.Errorf("got %v, want %d series: %q", got, len(want), text)
	}
}
