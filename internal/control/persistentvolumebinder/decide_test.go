package persistentvolumebinder

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

func storageOf(size string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

func claim(change ...func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	class := "c"
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "ns", UID: "u"},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: storageOf("1Gi")}}}
	for _, f := range change {
		f(c)
	}
	return c
}

func vol(name, size string, change ...func(*v1.PersistentVolume)) *v1.PersistentVolume {
	v := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
		Spec: v1.PersistentVolumeSpec{StorageClassName: "c", Capacity: storageOf(size),
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}}}
	for _, f := range change {
		f(v)
	}
	return v
}

func withClaimRef(name, uid string) func(*v1.PersistentVolume) {
	return func(v *v1.PersistentVolume) {
		v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: name, UID: types.UID(uid)}
	}
}

func class(provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Provisioner: provisioner,
		VolumeBindingMode: &mode}
}

// settle takes steps until there is nothing more to write, and prints claim, volumes and the last
// event.
func settle(t interface{ Fatalf(string, ...any) }, c *v1.PersistentVolumeClaim, class *storagev1.StorageClass,
	volumes ...*v1.PersistentVolume) string {
	reason := ""
	for range 20 {
		in := In{Volumes: map[string]*v1.PersistentVolume{}, Ordered: volumes, Class: class}
		for _, v := range volumes {
			in.Volumes[v.Name] = v
		}
		s := ForClaim(c, in)
		if s.Reason != "" {
			reason = s.Reason
		}
		wrote := true
		put := func(v *v1.PersistentVolume) {
			for i := range volumes {
				if volumes[i].Name == v.Name {
					volumes[i] = v
				}
			}
		}
		switch {
		case s.Volume != nil:
			put(s.Volume)
		case s.VolumeStatus != nil:
			put(s.VolumeStatus)
		case s.Claim != nil:
			c = s.Claim
		case s.ClaimStatus != nil:
			c = s.ClaimStatus
		default:
			wrote = false
		}
		if wrote {
			continue
		}
		out := fmt.Sprintf("claim %s %q", c.Status.Phase, c.Spec.VolumeName)
		for _, v := range volumes {
			owner := ""
			if v.Spec.ClaimRef != nil {
				owner = v.Spec.ClaimRef.Name
			}
			out += fmt.Sprintf(", %s %s %q", v.Name, v.Status.Phase, owner)
		}
		if reason != "" {
			out += ": " + reason
		}
		return out
	}
	t.Fatalf("the steps never end")
	return ""
}

func TestClaimsFindVolumes(t *testing.T) {
	now, later := storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer
	local := "kubernetes.io/no-provisioner"
	named := func(v string) func(*v1.PersistentVolumeClaim) {
		return func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = v }
	}
	gold := func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") }
	golden := func(v *v1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("gold") }
	completed := func(c *v1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	}
	selected := func(c *v1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "volume.kubernetes.io/selected-node", "n")
	}
	for name, x := range map[string]struct {
		c       *v1.PersistentVolumeClaim
		class   *storagev1.StorageClass
		volumes []*v1.PersistentVolume
		want    string
	}{
		"the smallest that fits": {claim(), class(local, now),
			[]*v1.PersistentVolume{vol("large", "9Gi"), vol("fit", "2Gi"), vol("small", "1Mi")},
			`claim Bound "fit", large Available "", fit Bound "data", small Available ""`},
		"kept for it by hand": {claim(), class(local, now),
			[]*v1.PersistentVolume{vol("mine", "9Gi", withClaimRef("data", "")), vol("fit", "1Gi")},
			`claim Bound "mine", mine Bound "data", fit Available ""`},
		"named by the claim": {claim(named("v")), class(local, now),
			[]*v1.PersistentVolume{vol("v", "2Gi")}, `claim Bound "v", v Bound "data"`},
		"both name each other": {claim(named("v")), class(local, now),
			[]*v1.PersistentVolume{vol("v", "2Gi", withClaimRef("data", ""))}, `claim Bound "v", v Bound "data"`},
		"named, but another's": {claim(named("v")), class(local, now),
			[]*v1.PersistentVolume{vol("v", "2Gi", withClaimRef("x", "y"))},
			`claim  "v", v Available "x": FailedBinding`},
		"named, but too small": {claim(named("v")), class(local, now),
			[]*v1.PersistentVolume{vol("v", "1Mi")}, `claim  "v", v Available "": VolumeMismatch`},
		"named, but of another class of attributes": {claim(named("v"), gold), class(local, now),
			[]*v1.PersistentVolume{vol("v", "2Gi")}, `claim  "v", v Available "": VolumeMismatch`},
		"of the same class of attributes": {claim(gold), class(local, now),
			[]*v1.PersistentVolume{vol("other", "1Gi"), vol("v", "2Gi", golden)},
			`claim Bound "v", other Available "", v Bound "data"`},
		"named, but being deleted": {claim(named("v")), class(local, now),
			[]*v1.PersistentVolume{vol("v", "2Gi", func(v *v1.PersistentVolume) {
				v.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			})}, `claim  "v", v Available "": VolumeMismatch`},
		"named, not there yet": {claim(named("v")), class(local, now), nil, `claim  "v"`},
		"waits for a Pod": {claim(), class(local, later), []*v1.PersistentVolume{vol("v", "2Gi")},
			`claim  "", v Available "": WaitForFirstConsumer`},
		"begun by the scheduler": {claim(), class(local, later),
			[]*v1.PersistentVolume{vol("v", "2Gi", withClaimRef("data", "u"))}, `claim Bound "v", v Bound "data"`},
		"nothing to be had": {claim(), class(local, now), nil, `claim  "": ProvisioningFailed`},
		"no such class":     {claim(), nil, nil, `claim  "": ProvisioningFailed`},
		"no class at all": {claim(func(c *v1.PersistentVolumeClaim) { *c.Spec.StorageClassName = "" }),
			nil, nil, `claim  "": FailedBinding`},
		"made outside": {claim(), class("csi.example", now), nil, `claim  "": ExternalProvisioning`},
		"made outside, for a node": {claim(selected), class("csi.example", later), nil,
			`claim  "": ExternalProvisioning`},
		"made outside, but not yet": {claim(), class("csi.example", later), nil,
			`claim  "": WaitForFirstConsumer`},
		"another access mode": {claim(), class(local, now),
			[]*v1.PersistentVolume{
				vol("v", "2Gi",
					func(v *v1.PersistentVolume) {
						v.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
					})}, `claim  "", v Available "": ProvisioningFailed`},
		"bound, volume gone": {claim(named("v"), completed), class(local, now), nil,
			`claim Lost "v": ClaimLost`},
		"bound, volume given to another": {claim(named("v"), completed), class(local, now),
			[]*v1.PersistentVolume{vol("v", "2Gi", withClaimRef("data", "other"))},
			`claim Lost "v", v Available "data": ClaimMisbound`},
	} {
		if got := settle(t, x.c, x.class, x.volumes...); got != x.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, x.want)
		}
	}
}

// A claim names the Pods that it waits for, in upstream's words.
func TestAClaimNamesThePodsThatItWaitsFor(t *testing.T) {
	for want, pods := range map[string][]string{
		"WaitForFirstConsumer: waiting for first consumer to be created before binding": nil,
		"WaitForPodScheduled: waiting for pod a to be scheduled":                        {"a"},
		"WaitForPodScheduled: waiting for pods a,b to be scheduled":                     {"a", "b"},
	} {
		s := ForClaim(claim(), In{Class: class("x", storagev1.VolumeBindingWaitForFirstConsumer), Waiting: pods})
		if got := s.Reason + ": " + s.Message; got != want || s.EventType != v1.EventTypeNormal {
			t.Errorf("got %s %q, want Normal %q", s.EventType, got, want)
		}
	}
}

func TestVolumesWithoutClaim(t *testing.T) {
	policy := func(p v1.PersistentVolumeReclaimPolicy) func(*v1.PersistentVolume) {
		return func(v *v1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = p }
	}
	provisioned := func(v *v1.PersistentVolume) {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, "pv.kubernetes.io/provisioned-by", "csi.example")
	}
	byUs := func(v *v1.PersistentVolume) {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, "pv.kubernetes.io/bound-by-controller", "yes")
	}
	bound := func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound }
	leaving := func(v *v1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	elsewhere := claim(func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "x" })
	for name, x := range map[string]struct {
		v    *v1.PersistentVolume
		c    *v1.PersistentVolumeClaim
		want string
	}{
		"new": {
			vol("v", "1Gi", func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumePending }), nil, "Available"},
		"kept for a claim":   {vol("v", "1Gi", withClaimRef("data", "")), nil, "Available for data"},
		"its claim is there": {vol("v", "1Gi", withClaimRef("data", "u")), claim(), "Available for data"},
		"claim gone, retain": {vol("v", "1Gi", withClaimRef("data", "u"),
			policy(v1.PersistentVolumeReclaimRetain)), nil, "Released for data"},
		"claim made anew": {vol("v", "1Gi", withClaimRef("data", "old"),
			policy(v1.PersistentVolumeReclaimRetain)), claim(), "Released for data"},
		"claim gone, made by CSI": {vol("v", "1Gi", withClaimRef("data", "u"),
			policy(v1.PersistentVolumeReclaimDelete), provisioned), nil, "Released for data"},
		"claim gone, cannot": {vol("v", "1Gi", withClaimRef("data", "u"),
			policy(v1.PersistentVolumeReclaimDelete)), nil, "Failed for data: VolumeFailedDelete"},
		"claim gone, recycle": {vol("v", "1Gi", withClaimRef("data", "u"),
			policy(v1.PersistentVolumeReclaimRecycle)), nil, "Failed for data: VolumeFailedRecycle"},
		"claim bound elsewhere": {vol("v", "1Gi", withClaimRef("data", "u"), byUs), elsewhere, "Available"},
		"being deleted, claim gone": {vol("v", "1Gi", withClaimRef("data", "u"), bound, leaving,
			policy(v1.PersistentVolumeReclaimRetain)), nil, "Released for data"},
		"being deleted, claim gone, cannot": {vol("v", "1Gi", withClaimRef("data", "u"), bound, leaving,
			policy(v1.PersistentVolumeReclaimDelete)), nil, "Released for data"},
		"being deleted, claim there": {vol("v", "1Gi", withClaimRef("data", "u"), bound, leaving), claim(),
			"Bound for data"},
		"being deleted, claim bound elsewhere": {vol("v", "1Gi", withClaimRef("data", "u"), bound, leaving, byUs),
			elsewhere,
			"Available"},
		"being deleted, its reference was taken": {vol("v", "1Gi", bound, leaving), nil, "Available"},
		"elsewhere, by hand": {vol("v", "1Gi", withClaimRef("data", "u")), elsewhere,
			"Available for data"},
	} {
		reason := ""
		for range 5 {
			s := ForVolume(x.v, In{Claim: func(string, string) *v1.PersistentVolumeClaim { return x.c }})
			if s.Volume != nil {
				x.v = s.Volume
			}
			if s.VolumeStatus != nil {
				x.v = s.VolumeStatus
			}
			if s.Reason != "" {
				reason = ": " + s.Reason
			}
		}
		got := string(x.v.Status.Phase)
		if x.v.Spec.ClaimRef != nil {
			got += " for " + x.v.Spec.ClaimRef.Name
		}
		if got += reason; got != x.want {
			t.Errorf("%s: %s, want %s", name, got, x.want)
		}
	}
}

// Whatever volumes there are, a claim takes one at most, and one that is large enough.
func TestClaimsTakeOneVolume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var volumes []*v1.PersistentVolume
		for i := range rapid.IntRange(0, 5).Draw(t, "volumes") {
			v := vol(fmt.Sprint("v", i), rapid.SampledFrom([]string{"1Mi", "1Gi", "2Gi"}).Draw(t, "size"))
			if who := rapid.SampledFrom([]string{"", "data", "x"}).Draw(t, "for"); who != "" {
				withClaimRef(who, rapid.SampledFrom([]string{"", "u", "z"}).Draw(t, "uid"))(v)
			}
			volumes = append(volumes, v)
		}
		settle(t, claim(), class("kubernetes.io/no-provisioner", storagev1.VolumeBindingImmediate), volumes...)
		taken := 0
		for _, v := range volumes {
			if v.Status.Phase == v1.VolumeBound {
				taken++
				if q := v.Spec.Capacity[v1.ResourceStorage]; q.Cmp(resource.MustParse("1Gi")) < 0 {
					t.Fatalf("%s is too small", v.Name)
				}
				if v.Spec.ClaimRef.UID != "u" {
					t.Fatalf("%s is for %s, want u", v.Name, v.Spec.ClaimRef.UID)
				}
			}
		}
		if taken > 1 {
			t.Fatalf("%d volumes taken", taken)
		}
	})
}
