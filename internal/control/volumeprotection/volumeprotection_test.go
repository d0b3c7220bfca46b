package volumeprotection

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

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
		make    func(controllerruntime.ControllerContext) controllerruntime.Runner
		key     string
		goes    bool
	}{
		"claim nobody uses":        {[]runtime.Object{claim}, NewPVCProtection, "ns/data", true},
		"claim of a Pod on a node": {[]runtime.Object{claim, user("n")}, NewPVCProtection, "ns/data", false},
		"claim of a waiting Pod":   {[]runtime.Object{claim, user("")}, NewPVCProtection, "ns/data", true},
		"volume that is free":      {[]runtime.Object{vol(v1.VolumeAvailable)}, NewPVProtection, "v", true},
		"volume that is bound":     {[]runtime.Object{vol(v1.VolumeBound)}, NewPVProtection, "v", false},
		"class nobody has":         {[]runtime.Object{class}, NewVACProtection, gold, true},
		"class that a claim wants": {
			[]runtime.Object{class, &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"},
				Spec: v1.PersistentVolumeClaimSpec{VolumeAttributesClassName: &gold}}}, NewVACProtection, gold, false},
		"class that a volume has": {
			[]runtime.Object{class, &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"},
				Spec: v1.PersistentVolumeSpec{VolumeAttributesClassName: &gold}}}, NewVACProtection, gold, false},
	} {
		client := fake.NewClientset(c.objects...)
		d := controllerruntime.ControllerContext{Client: client,
			Informers: informers.NewSharedInformerFactory(client, 0)}
		runner := c.make(d)
		ctx, stop := context.WithCancel(t.Context())
		d.Informers.Start(ctx.Done())
		d.Informers.WaitForCacheSync(ctx.Done())
		var err error
		switch s := c.key; s {
		case "ns/data":
			_, err = (&pvcProtection{d, d.Informers.Core().V1().PersistentVolumeClaims().Lister()}).processPVC(ctx, s)
		case "v":
			_, err = (&pvProtection{d, d.Informers.Core().V1().PersistentVolumes().Lister()}).processPV(ctx, s)
		default:
			_, err = (&vacProtection{d, d.Informers.Storage().V1().VolumeAttributesClasses().Lister(),
				d.Informers.Core().V1().PersistentVolumeClaims().Lister(),
				d.Informers.Core().V1().PersistentVolumes().Lister()}).processVAC(ctx, s)
		}
		stop()
		if err != nil || runner == nil {
			t.Errorf("%s: got %v, want no error and set runner", name, err)
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
