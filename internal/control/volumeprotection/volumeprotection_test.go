package volumeprotection

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/test/wrappers"
)

func leaving(name, finalizer string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "ns", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)},
		Finalizers: []string{finalizer, "other/one"}}
}

func user(node string) *v1.Pod {
	return wrappers.MakePod().Namespace("ns").Name("p").Node(node).Claims("data").Obj()
}

// What a change of a Pod frees, whatever is hidden behind it.
func TestClaimsThatAPodsChangeFrees(t *testing.T) {
	zero := int64(0)
	with := func(uid, node string, change ...func(*v1.Pod)) *v1.Pod {
		p := user(node)
		p.UID = types.UID(uid)
		p.Spec.Volumes = append(p.Spec.Volumes,
			v1.Volume{Name: "own", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}})
		for _, f := range change {
			f(p)
		}
		return p
	}
	ended := func(p *v1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, &zero
	}
	other := func(p *v1.Pod) { p.Spec.Volumes = nil }
	for name, c := range map[string]struct {
		old, cur runtime.Object
		want     string
	}{
		"comes":                             {nil, with("a", "n"), ""},
		"goes":                              {with("a", "n"), nil, "ns/data ns/p-own"},
		"goes, was never placed":            {with("a", ""), nil, ""},
		"changes":                           {with("a", "n"), with("a", "n"), ""},
		"is placed":                         {with("a", ""), with("a", "n"), ""},
		"the kubelet is done with it":       {with("a", "n"), with("a", "n", ended), "ns/p-own"},
		"goes after that":                   {with("a", "n", ended), nil, "ns/data"},
		"another of its name came":          {with("a", "n"), with("b", "n"), "ns/data ns/p-own"},
		"another without volumes came":      {with("a", "n"), with("b", "n", other), "ns/data ns/p-own"},
		"another came after its end was ok": {with("a", "n", ended), with("b", ""), "ns/data"},
	} {
		if got := strings.Join(FreedClaims(c.old, c.cur), " "); got != c.want {
			t.Errorf("%s: frees %q, want %q", name, got, c.want)
		}
	}
}

// What is not being deleted and lacks its finalizer gets it, and keeps the others.
func TestFinalizersAreAddedAnew(t *testing.T) {
	for key, c := range map[string]struct {
		finalizer string
		object    runtime.Object
	}{
		"ns/data": {ClaimFinalizer, &v1.PersistentVolumeClaim{}},
		"v":       {VolumeFinalizer, &v1.PersistentVolume{}},
		"gold":    {ClassFinalizer, &storagev1.VolumeAttributesClass{}},
	} {
		for _, has := range []bool{false, true} {
			o := c.object.DeepCopyObject()
			m, err := meta.Accessor(o)
			if err != nil {
				t.Fatal(err)
			}
			ns, name, found := strings.Cut(key, "/")
			if !found {
				ns, name = "", key
			}
			m.SetNamespace(ns)
			m.SetName(name)
			want := []string{"other/one", c.finalizer}
			if m.SetFinalizers(want[:1]); has {
				m.SetFinalizers(want)
			}
			client := fake.NewClientset(o)
			if err := process(t, client, key); err != nil {
				t.Errorf("%s: got %v, want no error", key, err)
			}
			var got []string
			for _, a := range client.Actions() {
				if u, ok := a.(k8stesting.UpdateAction); ok {
					m, _ := meta.Accessor(u.GetObject())
					got = m.GetFinalizers()
				}
			}
			if has {
				want = nil
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, finalizer there: %t: got finalizers %v written, want %v", key, has, got, want)
			}
		}
	}
}

// process has the controller of the key's kind look at it once.
func process(t *testing.T, client kubernetes.Interface, key string) error {
	d := controllerruntime.ControllerContext{Client: client, Informers: informers.NewSharedInformerFactory(client, 0)}
	claims, store := newPVCProtection(d), d.Informers.Storage().V1().VolumeAttributesClasses().Lister()
	classes := &vacProtection{d, store, claims.list, d.Informers.Core().V1().PersistentVolumes().Lister()}
	volumes := &pvProtection{d, classes.volumes}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	d.Informers.Start(ctx.Done())
	d.Informers.WaitForCacheSync(ctx.Done())
	var err error
	switch key {
	case "ns/data":
		_, err = claims.processPVC(ctx, key)
	case "v":
		_, err = volumes.processPV(ctx, key)
	default:
		_, err = classes.processVAC(ctx, key)
	}
	return err
}

func TestFinalizersGoWithTheLastUse(t *testing.T) {
	gold := "gold"
	claim := &v1.PersistentVolumeClaim{ObjectMeta: leaving("data", ClaimFinalizer)}
	vol := func(phase v1.PersistentVolumePhase) *v1.PersistentVolume {
		v := &v1.PersistentVolume{ObjectMeta: leaving("v", VolumeFinalizer),
			Status: v1.PersistentVolumeStatus{Phase: phase}}
		v.Namespace = ""
		return v
	}
	class := &storagev1.VolumeAttributesClass{ObjectMeta: leaving(gold, ClassFinalizer)}
	class.Namespace = ""
	for name, c := range map[string]struct {
		objects []runtime.Object
		key     string
		goes    bool
	}{
		"claim nobody uses":        {[]runtime.Object{claim}, "ns/data", true},
		"claim of a Pod on a node": {[]runtime.Object{claim, user("n")}, "ns/data", false},
		"claim of a waiting Pod":   {[]runtime.Object{claim, user("")}, "ns/data", true},
		"volume that is free":      {[]runtime.Object{vol(v1.VolumeAvailable)}, "v", true},
		"volume that is bound":     {[]runtime.Object{vol(v1.VolumeBound)}, "v", false},
		"class nobody has":         {[]runtime.Object{class}, gold, true},
		"class that a claim wants": {
			[]runtime.Object{class, &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"},
				Spec: v1.PersistentVolumeClaimSpec{VolumeAttributesClassName: &gold}}}, gold, false},
		"class that a volume has": {
			[]runtime.Object{class, &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"},
				Spec: v1.PersistentVolumeSpec{VolumeAttributesClassName: &gold}}}, gold, false},
	} {
		client := fake.NewClientset(c.objects...)
		if err := process(t, client, c.key); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
		updated := false
		for _, a := range client.Actions() {
			updated = updated || a.GetVerb() == "update"
		}
		if updated != c.goes {
			t.Errorf("%s: finalizer taken off: %v, want %v", name, updated, c.goes)
		}
	}
}
