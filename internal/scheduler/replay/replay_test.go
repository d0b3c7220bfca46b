package replay_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/replay"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/wrappers"
)

// recordedHandle is what the scheduler's plugins know besides nodes and Pods.
type recordedHandle struct {
	framework.Handle
	listers  *volumelisters.Objects
	selector labels.Selector
	factory  informers.SharedInformerFactory
}

func (h *recordedHandle) VolumeListers() volumelisters.Listers                   { return h.listers }
func (h *recordedHandle) SelectorOf(*v1.Pod) labels.Selector                     { return h.selector }
func (h *recordedHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }

// randomCluster is a random cluster that moves.
type randomCluster struct {
	*rapid.T
	recordedHandle
	cache      *snapshot.Cache
	namespaces []*v1.Namespace
	nominated  map[string][]framework.PodInfo
	podsMade   int
}

func (t *randomCluster) n(what string, from, to int) int {
	return rapid.IntRange(from, to).Draw(t.T, what)
}
func (t *randomCluster) chance(what string, percent int) bool { return t.n(what, 1, 100) <= percent }
func (t *randomCluster) oneOf(what string, of ...string) string {
	return rapid.SampledFrom(of).Draw(t.T, what)
}
func quantity(s string) resource.Quantity { return resource.MustParse(s) }
func matching(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func newRandomCluster(r *rapid.T) *randomCluster {
	t := &randomCluster{T: r, cache: snapshot.NewCache(), nominated: map[string][]framework.PodInfo{}}
	t.factory, t.selector = informers.NewSharedInformerFactory(nil, 0), labels.SelectorFromSet(labels.Set{"app": "web"})
	for _, name := range []string{"a", "b"} {
		n := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": name},
			Annotations: map[string]string{"unread": "x"}}}
		t.namespaces = append(t.namespaces, n)
		if err := t.factory.Core().V1().Namespaces().Informer().GetIndexer().Add(n); err != nil {
			r.Fatal(err)
		}
	}
	later := storagev1.VolumeBindingWaitForFirstConsumer
	objects := []runtime.Object{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"},
		Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &later}}
	for i := range 4 {
		name, class := fmt.Sprintf("claim%d", i), "local"
		objects = append(objects,
			&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a", UID: types.UID(name)},
				Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class,
					AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
					Resources: v1.VolumeResourceRequirements{
						Requests: v1.ResourceList{v1.ResourceStorage: quantity("1Gi")}}},
				Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}})
		objects = append(objects, &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pv%d", i)},
			Spec: v1.PersistentVolumeSpec{
				StorageClassName: class, Capacity: v1.ResourceList{v1.ResourceStorage: quantity("2Gi")},
				AccessModes:            []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/x"}},
				NodeAffinity: &v1.VolumeNodeAffinity{
					Required: &v1.NodeSelector{
						NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
							{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn,
								Values: []string{fmt.Sprintf("n%d", i)}}}}}}}},
			Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable}})
	}
	t.listers = volumelisters.Of(objects...)
	return t
}

func (t *randomCluster) node(name string) *v1.Node {
	n := wrappers.MakeNode().Hostname(name).Obj()
	n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: quantity(t.oneOf("cpu", "1", "2", "4")),
		v1.ResourceMemory: quantity("8Gi"), v1.ResourcePods: quantity("9")}
	if t.chance("zone?", 80) {
		n.Labels[v1.LabelTopologyZone] = t.oneOf("zone", "x", "y", "z")
	}
	if t.chance("taint?", 30) {
		n.Spec.Taints = []v1.Taint{
			{Key: "k", Effect: v1.TaintEffect(t.oneOf("effect", "NoSchedule", "PreferNoSchedule"))}}
	}
	if t.chance("images?", 60) {
		n.Status.Images = []v1.ContainerImage{{Names: []string{"i:latest"},
			SizeBytes: int64(t.n("size", 100, 900)) << 20}}
	}
	return n
}

func (t *randomCluster) pod() *v1.Pod {
	t.podsMade++
	name := fmt.Sprintf("p%d", t.podsMade)
	app := t.oneOf("app", "web", "db")
	p := wrappers.MakePod().Namespace(t.oneOf("namespace", "a", "b")).Name(name).
		UID(name).Label("app", app).SchedulerName("default-scheduler").
		Containers(v1.Container{Name: "c", Image: "i", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: quantity(t.oneOf("asks", "0", "100m", "0.5", "1500m"))}}}).
		Obj()
	if t.chance("priority?", 50) {
		p.Spec.Priority = new(int32(t.n("priority", 0, 2)))
	}
	term := v1.PodAffinityTerm{TopologyKey: t.oneOf("key", v1.LabelHostname, v1.LabelTopologyZone),
		LabelSelector: matching("app", t.oneOf("other", "web", "db")), NamespaceSelector: matching("team", "a")}
	switch t.oneOf("affinity", "none", "none", "near", "apart", "rather") {
	case "near":
		p.Spec.Affinity = &v1.Affinity{
			PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	case "apart":
		p.Spec.Affinity = &v1.Affinity{
			PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				term}}}
	case "rather":
		p.Spec.Affinity = &v1.Affinity{
			PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
				{Weight: 9, PodAffinityTerm: term}}}}
	}
	if t.chance("spread?", 25) {
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone,
			WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: matching("app", app)}}
	}
	if t.chance("claim?", 30) {
		p.Spec.Volumes = []v1.Volume{
			{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
				ClaimName: fmt.Sprintf("claim%d", t.n("which", 0, 4))}}}}
	}
	return p
}

// schedule rules as the scheduler does and writes the decision down.
func (t *randomCluster) schedule(eqCache *schedule.EquivalenceCache, pluginSet *schedule.PluginSet,
	p *v1.Pod) (*schedule.Result, *replay.Decision) {
	taken := replay.Inputs{At: time.Unix(1, 0).UTC(), Selector: t.selector.String(), Namespaces: t.namespaces,
		Volumes: replay.VolumeListersOf(pluginSet)}
	var err error
	if taken.Config, err = replay.ProfileConfig(config.Default(), 0); err != nil {
		t.Fatal(err)
	}
	luck := t.n("luck", 0, 9)
	taken.Input = schedule.Input{Pod: p, Snapshot: t.cache.UpdateSnapshot(), Plugins: pluginSet, Cache: eqCache,
		PickTie: func(n int) int {
			taken.Pick = luck % n
			return taken.Pick
		}}
	if t.chance("sampled?", 30) {
		taken.Input.Sample = schedule.Sample{Percent: 50, AtLeast: 2, StartsAt: t.n("start", 0, 20)}
	}
	if len(t.nominated) > 0 {
		taken.Input.NominatedPodsForNode = func(node string) []framework.PodInfo { return t.nominated[node] }
		for node := range t.nominated {
			taken.Input.NominatedNodes = append(taken.Input.NominatedNodes, node)
		}
	}
	r := schedule.SchedulePod(context.Background(), taken.Input)
	taken.Result = r.Fact()
	return r, replay.Record(taken)
}

func (t *randomCluster) roundTrip(d *replay.Decision) *replay.ReplayedDecision {
	line, err := d.Line()
	if err != nil {
		t.Fatal(err)
	}
	if d, err = replay.Read(line); err != nil {
		t.Fatal(err)
	}
	c, err := replay.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (t *randomCluster) move() *v1.Pod {
	if t.chance("node changes?", 50) {
		t.cache.SetNode(t.node(fmt.Sprintf("n%d", t.n("node", 0, 8))))
	}
	if t.chance("node goes?", 5) {
		t.cache.RemoveNode(fmt.Sprintf("n%d", t.n("node", 0, 8)))
	}
	if t.chance("promise?", 15) {
		info, err := snapshot.NewPodInfo(t.pod())
		if err != nil {
			t.Fatal(err)
		}
		t.nominated = map[string][]framework.PodInfo{fmt.Sprintf("n%d", t.n("node", 0, 8)): {info}}
	}
	return t.pod()
}

func TestRecordedDecisionsAreMadeAgainBitForBit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newRandomCluster(r)
		pluginSet, err := plugins.DefaultPluginSet("default-scheduler", &w.recordedHandle)
		if err != nil {
			r.Fatal(err)
		}
		eqCache := &schedule.EquivalenceCache{}
		for i := range w.n("nodes", 0, 8) {
			w.cache.SetNode(w.node(fmt.Sprintf("n%d", i)))
		}
		for range w.n("steps", 1, 8) {
			p := w.move()
			result, d := w.schedule(eqCache, pluginSet, p)
			v, err := w.roundTrip(d).Replay(t.Context())
			if err != nil {
				r.Fatal(err)
			}
			if !v.Equal() || v.Replayed.Winner != result.SuggestedHost {
				r.Fatalf("Pod %+v: %s", p.Spec, v.Line())
			}
			if other, err := w.roundTrip(d).CompareConfig(t.Context(), config.Default()); err != nil || !other.Equal() {
				r.Fatalf("against its own configuration: %s, %v", other.Line(), err)
			}
			if result.SuggestedHost != "" {
				if err := w.cache.AssumePod(p, result.SuggestedHost); err != nil {
					r.Fatal(err)
				}
			}
		}
	})
}
