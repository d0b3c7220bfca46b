package scenario

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/simulate/forecast"
)

// withDisk is three nodes and one Pod, best on n0, with a claim of one node's volume. attach says
// whether the driver's volumes are attached.
func withDisk(attach bool) []runtime.Object {
	d := deployment("db", 1, "100m")
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	spec := &d.Spec.Template.Spec
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n0"}}}}}}}}
	spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("disk"),
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
	return append(nodes("4", "4", "4"), csiNode("n0", 9), csiNode("n1", 9), csiNode("n2", 9), claim, d,
		storageClass(driver, storagev1.VolumeBindingImmediate),
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver},
			Spec: storagev1.CSIDriverSpec{AttachRequired: &attach}})
}

func came(t *testing.T, f *forecast.Forecast) forecast.Pod {
	t.Helper()
	for _, p := range f.Pods {
		if p.Created != nil {
			return p
		}
	}
	t.Fatalf("no Pod came: outcome %+v, Pods %+v", f.Outcome, f.Pods)
	return forecast.Pod{}
}

// row: TOO-06
// A Pod that is drained begins elsewhere when its volume was taken from its node and attached to
// the other: a second to end, two to detach, two to attach, which are the Pod's time to start. A
// volume that needs no attaching keeps it from nothing.
func TestADrainedVolumeIsAttachedElsewhere(t *testing.T) {
	for attach, want := range map[bool]time.Duration{true: 5 * time.Second, false: 2 * time.Second} {
		f := simulate(t, input(withDisk(attach)...), func() Change { return &Drain{Nodes: []string{"n0"}} })
		p := came(t, f)
		if !f.Outcome.Done || p.Running == nil || *p.Running != want {
			t.Errorf("attached %v: outcome %+v, Pod %+v running at %v, want done, running at %s", attach, f.Outcome, p,
				p.Running, want)
		}
	}
}

// The volume of a lost node keeps the Pod that comes in its place from starting, as long as the old
// Pod is there; what says that the node is off frees it.
func TestALostNodeKeepsItsVolume(t *testing.T) {
	in := input(withDisk(true)...)
	in.Horizon = 30 * time.Minute
	var claims, silent []string
	f, err := Simulate(t.Context(), in, func() Change { return &Lose{Nodes: []string{"n0"}} },
		func(ctx context.Context, r *Run) error {
			unready, err := r.Unready(ctx)
			for i := range unready {
				claims = append(claims, r.Cluster.ClaimsOf(ctx, &unready[i])...)
				silent = append(silent, r.Cluster.Silent(ctx, &unready[i])...)
			}
			return err
		})
	if err != nil {
		t.Fatal(err)
	}
	if p := came(t, f); f.Outcome.Done || p.Running != nil || len(claims) != 1 ||
		!strings.HasSuffix(claims[0], "is attached to node n0") || len(silent) != 1 || silent[0] != "n0" {
		t.Errorf("outcome %+v, Pod %+v, claims %q, silent %q, want a Pod that n0 keeps the volume from", f.Outcome, p,
			claims, silent)
	}
	f = simulate(t, in, func() Change { return &Lose{Nodes: []string{"n0"}, OutOfService: true} })
	p := came(t, f)
	if !f.Outcome.Done || p.Ready == nil || *p.Ready > 2*time.Minute {
		t.Errorf("out of service: outcome %+v, Pod %+v, want it ready in 2 minutes", f.Outcome, p)
	}
}

// row: TOO-06
// A Pod that was deleted by force from a silent node leaves its volume attached for six minutes.
func TestASilentNodeKeepsAVolumeForSixMinutes(t *testing.T) {
	in := input(withDisk(true)...)
	f := simulate(t, in, func() Change { return &forced{} })
	p := came(t, f)
	// the Pod is deleted after two minutes; two seconds to detach, two to attach
	if want := 8*time.Minute + 4*time.Second; p.Running == nil || *p.Running != want {
		t.Errorf("outcome %+v, Pod %+v, running at %v, want %s", f.Outcome, p, p.Running, want)
	}
}

// forced is the loss of n0, with its Pods deleted by force after two minutes.
type forced struct{ Lose }

func (f *forced) Begin(ctx context.Context, r *Run) error {
	f.Nodes = []string{"n0"}
	r.Cluster.At(r.Cluster.Now().Add(2*time.Minute), func(ctx context.Context) {
		list, err := r.Cluster.Client().CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			r.err = err
			return
		}
		for _, p := range list.Items {
			if p.Spec.NodeName == "n0" {
				r.err = r.Cluster.Client().CoreV1().Pods("default").Delete(ctx, p.Name,
					metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			}
		}
	})
	return f.Lose.Begin(ctx, r)
}
