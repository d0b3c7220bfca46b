package nodevolumelimits

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// What is passed without looking anything up, or skipped altogether, would have passed with
// looking.
func TestFastPathsRefusePodsOverTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		var objects []runtime.Object
		name := func(i int) string { return fmt.Sprintf("v%d", i) }
		for i := range 6 {
			objects = append(objects,
				&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name(i)},
					Spec: v1.PersistentVolumeClaimSpec{VolumeName: name(rapid.IntRange(0, 6).Draw(r, "volume"))}})
			pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}
			if rapid.Bool().Draw(r, "csi") {
				pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: rapid.SampledFrom([]string{"d1", "d2"}).Draw(r,
					"driver"), VolumeHandle: name(rapid.IntRange(0, 6).Draw(r, "handle"))}
			} else {
				pv.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + name(i)}
			}
			objects = append(objects, pv)
		}
		csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n",
			Annotations: map[string]string{v1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs"}}}
		for _, d := range []string{"d1", "d2", "ebs.csi.aws.com"} {
			if rapid.Bool().Draw(r, "limited") {
				csi.Spec.Drivers = append(csi.Spec.Drivers,
					storagev1.CSINodeDriver{Name: d,
						Allocatable: &storagev1.VolumeNodeResources{
							Count: new(int32(rapid.IntRange(0, 5).Draw(r, "limit")))}})
			}
		}
		if rapid.Bool().Draw(r, "attached") {
			objects = append(objects, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"},
				Spec: storagev1.VolumeAttachmentSpec{NodeName: "n",
					Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new(name(0))}}})
		}
		pod := func(i int) *v1.Pod {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%d", i),
				UID: types.UID(fmt.Sprint(i))}, Spec: v1.PodSpec{NodeName: "n"}}
			for range rapid.IntRange(0, 3).Draw(r, "volumes") {
				v := v1.Volume{Name: fmt.Sprintf("m%d", len(p.Spec.Volumes))}
				if rapid.IntRange(0, 4).Draw(r, "inline") == 0 {
					v.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{
						VolumeID: "inline-" + name(rapid.IntRange(0, 3).Draw(r, "id"))}
				} else {
					v.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{
						ClaimName: name(rapid.IntRange(0, 6).Draw(r, "claim"))}
				}
				p.Spec.Volumes = append(p.Spec.Volumes, v)
			}
			return p
		}
		var there []*v1.Pod
		for i := range rapid.IntRange(0, 3).Draw(r, "pods") {
			there = append(there, pod(i))
		}
		pl := New(volumelisters.Of(append(objects, csi)...))
		n := snapshot.Of([]*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}, there).At(0)
		p, state := pod(9), schedule.NewCycleState()
		_, over := pl.exceededLimit(p, n)
		_, s := pl.PreFilter(t.Context(), state, p, nil)
		if s.IsSkip() && over {
			r.Fatal("skipped a Pod that is over the limit")
		}
		if !s.IsSkip() && pl.Filter(t.Context(), state, p, n).IsSuccess() == over {
			r.Fatalf("over is %v, and Filter says otherwise", over)
		}
	})
}
