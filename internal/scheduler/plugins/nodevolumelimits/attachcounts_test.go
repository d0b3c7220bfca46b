package nodevolumelimits

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodechanges"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/expect"
)

// changingObjects are Facts that change and say for which nodes; lookups counts the volumes looked
// up.
type changingObjects struct {
	*volumelisters.Objects
	nodechanges.Log
	objects map[string]runtime.Object
	lookups int
}

func (f *changingObjects) Volume(name string) (*v1.PersistentVolume, error) {
	f.lookups++
	return f.Objects.Volume(name)
}

// set puts an object in the place of the one of that name; node is whom it is about, if it is a
// node's.
func (f *changingObjects) set(name, node string, obj runtime.Object) {
	f.objects[name] = obj
	if obj == nil {
		delete(f.objects, name)
	}
	f.Objects = volumelisters.Of(slices.Collect(maps.Values(f.objects))...)
	if node != "" {
		f.Note(node)
	}
}

func (f *changingObjects) change(r *rapid.T, w *snapshot.Cache, i int) {
	any := func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(r, what) }
	node := fmt.Sprintf("n%d", any(5, "node"))
	switch any(7, "step") {
	case 0:
		csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}
		if any(2, "took over") == 0 {
			csi.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs"}
		}
		for _, d := range []string{"d1", "d2", "ebs.csi.aws.com"} {
			if any(2, "limited") == 0 {
				csi.Spec.Drivers = append(csi.Spec.Drivers,
					storagev1.CSINodeDriver{Name: d,
						Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(any(6, "limit")))}})
			}
		}
		f.set("csi/"+node, node, csi)
	case 1:
		f.set("csi/"+node, node, nil)
	case 2:
		a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: node},
			Spec: storagev1.VolumeAttachmentSpec{NodeName: node,
				Source: storagev1.VolumeAttachmentSource{
					PersistentVolumeName: new(fmt.Sprintf("v%d", any(6, "volume")))}}}
		f.set("attachment/"+node, node, a)
	case 3:
		f.set("attachment/"+node, node, nil)
	case 4:
		w.RemovePod(types.UID(fmt.Sprint(any(i+1, "gone"))))
	case 5:
		w.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"i": fmt.Sprint(i)}}})
	case 6:
		if w.UpdateSnapshot().Len() > 1 {
			w.RemoveNode(node)
		}
	}
}

// With columns the status of every node is the one without, whatever happens to nodes, limits,
// attachments and Pods in between, and though other Pods are nominated to nodes.
func TestColumnsChangeNoStatus(t *testing.T) {
	t.Parallel()
	skipped, cases := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		f := &changingObjects{objects: map[string]runtime.Object{}}
		for i := range 10 { // the last ones are those of nominated Pods
			name := fmt.Sprintf("v%d", i)
			claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
				Spec: v1.PersistentVolumeClaimSpec{VolumeName: name}}
			pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
			switch i {
			case 0, 1:
				pv.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + name}
			case 2:
				claim.Spec.VolumeName, claim.Spec.StorageClassName = "", new("later")
			default:
				pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: fmt.Sprintf("d%d", 1+i%2), VolumeHandle: name}
			}
			f.set("claim/"+name, "", claim)
			f.set("volume/"+name, "", pv)
		}
		f.set("class", "", &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "later"},
			Provisioner: rapid.SampledFrom([]string{"d1", "kubernetes.io/aws-ebs"}).Draw(r, "provisioner")})
		w := snapshot.NewCache()
		for i := range 5 {
			name := fmt.Sprintf("n%d", i)
			w.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
			f.set("csi/"+name, name, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
					{Name: "d1", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(2))}},
					{Name: "d2", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(3))}}}}})
		}
		cached := New(f)
		for i := range rapid.IntRange(1, 60).Draw(r, "pods") {
			f.change(r, w, i)
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%d", i),
				UID: types.UID(fmt.Sprint(i))}}
			for range rapid.IntRange(1, 3).Draw(r, "volumes") {
				p.Spec.Volumes = append(p.Spec.Volumes, claimVolume(rapid.IntRange(0, 6).Draw(r, "claim")))
			}
			in := schedule.Input{Pod: p, Snapshot: w.UpdateSnapshot()}
			if rapid.IntRange(0, 3).Draw(r, "promises") == 0 {
				other := p.DeepCopy()
				other.UID, other.Spec.Volumes = "other", nil
				other.Spec.Volumes = []v1.Volume{claimVolume(7), claimVolume(8), claimVolume(9)}
				in.NominatedPodsForNode = func(node string) []framework.PodInfo {
					if node != "n1" {
						return nil
					}
					return []framework.PodInfo{expect.Value(snapshot.NewPodInfo(other))}
				}
			}
			rule := func(pl *Plugin) *schedule.Result {
				in.Plugins, in.State = schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: pl}), nil
				return schedule.SchedulePod(t.Context(), in)
			}
			want, got := rule(New(f.Objects)), rule(cached)
			if d := schedule.Differences(got, want); len(d) > 0 {
				r.Fatalf("Pod %d: got %v, want none", i, d)
			}
			cases += in.Snapshot.Len()
			if got.State.GetSkipFilterPlugins().Has(Name) {
				skipped += in.Snapshot.Len()
			}
			if want.Scheduled() {
				p.Spec.NodeName = want.SuggestedHost
				w.SetPod(p)
			}
		}
	})
	if t.Logf("%d statuses, %d without lookup", cases, skipped); cases < 5000 || skipped == 0 {
		t.Errorf("%d statuses, %d without lookup", cases, skipped)
	}
}

func claimVolume(i int) v1.Volume {
	name := fmt.Sprintf("v%d", i)
	return v1.Volume{Name: name,
		VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
}

// A node far from its limit costs no lookup, however many volumes are there; one near it is looked
// at in full.
func TestVolumesAreLookedUpOnlyNearALimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int32]bool{5: false, 3: true} {
		f := &changingObjects{objects: map[string]runtime.Object{}}
		w := snapshot.NewCache()
		for i := range 4 {
			name := fmt.Sprintf("v%d", i)
			f.set("claim/"+name, "",
				&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
					Spec: v1.PersistentVolumeClaimSpec{VolumeName: name}})
			f.set("volume/"+name, "", &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
					CSI: &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: name}}}})
		}
		f.set("csi", "n", &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"},
			Spec: storagev1.CSINodeSpec{
				Drivers: []storagev1.CSINodeDriver{
					{Name: "d", Allocatable: &storagev1.VolumeNodeResources{Count: &limit}}}}})
		w.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		uses := func(claim string) *v1.Pod {
			return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: claim, UID: types.UID(claim)},
				Spec: v1.PodSpec{Volumes: []v1.Volume{
					{Name: "v", VolumeSource: v1.VolumeSource{
						PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}}}
		}
		for i := range 3 {
			p := uses(fmt.Sprintf("v%d", i))
			p.Spec.NodeName = "n"
			w.SetPod(p)
		}
		pl := New(f)
		r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: uses("v3"), Snapshot: w.UpdateSnapshot(),
			Plugins: schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: pl})})
		// the Pod's own volume is looked up as it would be served by each plugin
		if looked := f.lookups > 2; r.Scheduled() == want || looked != want {
			t.Errorf("limit %d: fits %v, %d lookups", limit, r.Scheduled(), f.lookups)
		}
	}
}
