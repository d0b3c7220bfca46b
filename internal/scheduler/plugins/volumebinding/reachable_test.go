package volumebinding

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// Only volumes that some node may be too far from are asked about node by node: with an affinity of
// their own, or one that comes with the translation for the driver which took their plugin over.
func TestVolumesOfEveryNodeAreNotEvaluatedPerNode(t *testing.T) {
	ebs := v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}
	for name, c := range map[string]struct {
		source   v1.PersistentVolumeSource
		labels   map[string]string
		affinity *v1.VolumeNodeAffinity
		skips    bool
	}{
		"of a driver": {
			source: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
			skips:  true},
		"of a driver, with an affinity": {
			source:   v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
			affinity: &v1.VolumeNodeAffinity{}},
		"of a server": {
			source: v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/"}}, skips: true},
		"of an in-tree plugin":            {source: ebs, skips: true},
		"of an in-tree plugin, in a zone": {source: ebs, labels: map[string]string{v1.LabelTopologyZone: "a"}},
		"of an in-tree plugin, misspelt": {
			source: v1.PersistentVolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{}}, skips: true},
		"of an in-tree plugin, with an affinity": {source: ebs, affinity: &v1.VolumeNodeAffinity{}},
	} {
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c",
			Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
			Spec: v1.PersistentVolumeClaimSpec{VolumeName: "v"}}
		v := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", Labels: c.labels},
			Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: c.source, NodeAffinity: c.affinity}}
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
			Spec: v1.PodSpec{
				Volumes: []v1.Volume{
					{Name: "v", VolumeSource: v1.VolumeSource{
						PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}}}
		_, s := New(nil, volumelisters.Of(claim, v), nil).PreFilter(t.Context(), schedule.NewCycleState(), p, nil)
		if s.IsSkip() != c.skips {
			t.Errorf("%s: %v, want skip %v", name, s, c.skips)
		}
	}
}
