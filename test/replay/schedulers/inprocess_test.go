package schedulers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	schedulerconfig "github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/preemption"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// TestDecisionsAsRecorded has the plugins and the search for victims decide about the Pods of the
// 300 recorded clusters, without API server or scheduler around them, once node by node and once
// from memory, and compares with what kube-scheduler did: node, refusal, victims, each plugin's
// score for each node.
//
// row: FIL-02, FIL-03, FIL-04, FIL-05, FIL-06, FIL-09, FIL-10, FIL-13, FIL-16, FIL-17, FIL-18
// row: FIL-19, FIL-20, FIL-22, FIL-24, SCO-02, SCO-03, SCO-04, SCO-05, SCO-06, SCO-07, SCO-08
// row: SCO-09, SCO-10, BND-10, BND-11, BND-14
func TestDecisionsAsRecorded(t *testing.T) {
	recorded, err := readRecording()
	if err != nil {
		t.Fatal(err)
	}
	for name, fromMemory := range map[string]bool{"node by node": false, "from memory": true} {
		t.Run(name, func(t *testing.T) {
			compared, profiles := 0, newDeciders(t)
			for seed := uint64(1); seed <= uint64(len(recorded)) && !t.Failed(); seed++ {
				compared += newDecidedCluster(seed, profiles, fromMemory).compare(t, recorded[seed])
			}
			if want := 1700; compared < want {
				t.Errorf("compared %d Pods, want at least %d", compared, want)
			}
		})
	}
}

// deciders are the plugins of each profile, and what they see of the cluster under comparison.
type deciders struct {
	profiles map[string]*frameworkruntime.Profile
	volumes  *volumelisters.Objects
	search   preemption.Input // for victims; without what the cycle said
	found    preemption.Candidate
}

// volumeHandle gives plugins the volumes of the cluster under comparison.
type volumeHandle struct {
	framework.Handle
	*deciders
}

func (h volumeHandle) VolumeListers() volumelisters.Listers { return clusterVolumes{h.deciders} }

// clusterVolumes are the volumes of now.
type clusterVolumes struct{ of *deciders }

func (c clusterVolumes) Claim(namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return c.of.volumes.Claim(namespace, name)
}
func (c clusterVolumes) Volume(name string) (*v1.PersistentVolume, error) {
	return c.of.volumes.Volume(name)
}
func (c clusterVolumes) VolumesOfClass(class string) []*v1.PersistentVolume {
	return c.of.volumes.VolumesOfClass(class)
}
func (c clusterVolumes) Class(name string) (*storagev1.StorageClass, error) {
	return c.of.volumes.Class(name)
}
func (c clusterVolumes) CSINode(node string) *storagev1.CSINode  { return c.of.volumes.CSINode(node) }
func (c clusterVolumes) Driver(name string) *storagev1.CSIDriver { return c.of.volumes.Driver(name) }
func (c clusterVolumes) Capacities() []*storagev1.CSIStorageCapacity {
	return c.of.volumes.Capacities()
}
func (c clusterVolumes) Attachments(node string) []*storagev1.VolumeAttachment {
	return c.of.volumes.Attachments(node)
}
func (c clusterVolumes) HasLimit(driver string) bool { return c.of.volumes.HasLimit(driver) }

// binder stands for DefaultBinder; it binds nothing.
type binder struct{}

func (binder) Name() string { return plugins.DefaultBinder }

func (binder) Bind(context.Context, framework.CycleState, *v1.Pod, string) *framework.Status {
	return nil
}

// preemptor stands for DefaultPreemption; it evicts nobody.
type preemptor struct{ *deciders }

func (preemptor) Name() string { return plugins.DefaultPreemption }

func (p preemptor) PostFilter(ctx context.Context, _ framework.CycleState, _ *v1.Pod,
	refused framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	p.search.NodeToStatus = refused
	if why, ok := preemption.PodEligibleToPreemptOthers(p.search); !ok {
		return nil, framework.NewStatus(framework.Unschedulable, "preemption: "+why)
	}
	var err error
	if p.found, err = preemption.Preempt(ctx, p.search); err != nil {
		return nil, framework.AsStatus(err)
	}
	result := &framework.PostFilterResult{NominatingInfo: &framework.NominatingInfo{
		NominatedNodeName: p.found.Node, NominatingMode: framework.ModeOverride}}
	if p.found.Node == "" {
		return result, framework.NewStatus(framework.Unschedulable, "preemption: "+p.found.Message)
	}
	return result,
		framework.NewStatus(framework.Success, fmt.Sprintf("preemption: found a potential placement for pod "+
			"on node %s, preempting %d victims", p.found.Node, len(p.found.Victims)))
}

func newDeciders(t *testing.T) *deciders {
	t.Helper()
	d := &deciders{profiles: map[string]*frameworkruntime.Profile{}}
	cfg, err := schedulerconfig.Load(fmt.Appendf(nil, config, "ours", "none"))
	if err != nil {
		t.Fatal(err)
	}
	factories := map[string]plugins.Factory{}
	for _, r := range plugins.Registry() {
		factories[r.Name] = func(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin,
			error) {
			switch r.Name {
			case plugins.DefaultBinder:
				return binder{}, nil
			case plugins.DefaultPreemption:
				return preemptor{d}, nil
			}
			return r.New(ctx, args, volumeHandle{h, d})
		}
	}
	factory := informers.NewSharedInformerFactory(nil, 0)
	for i, ns := range namespaces {
		if err := factory.Core().V1().Namespaces().Informer().GetIndexer().Add(&v1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: singleLabel("team", string(rune('a'+i)))}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range cfg.Profiles {
		p, err := frameworkruntime.NewProfile(t.Context(), &cfg.Profiles[i], factories,
			frameworkruntime.Deps{Informers: factory, Snapshot: &frameworkruntime.CurrentSnapshot{}})
		if err != nil {
			t.Fatal(err)
		}
		d.profiles[strings.TrimPrefix(p.Name, "ours-")] = p
	}
	return d
}

// decidedCluster is a recorded cluster as plain objects.
type decidedCluster struct {
	*deciders
	objectGenerator
	seed    uint64
	cache   *snapshot.Cache
	budgets []*policyv1.PodDisruptionBudget
	objects []runtime.Object // around volumes
	memory  *memory          // nil: node by node
}

// memory is what is kept from Pod to Pod, by profile.
type memory struct {
	statuses map[string]*schedule.EquivalenceCache
	searches map[string]*preemption.DryRunCache
}

// newDecidedCluster makes what fill and createObjects make.
func newDecidedCluster(seed uint64, d *deciders, fromMemory bool) *decidedCluster {
	c := &decidedCluster{deciders: d, objectGenerator: roll(seed), seed: seed, cache: snapshot.NewCache()}
	if fromMemory {
		c.memory = &memory{map[string]*schedule.EquivalenceCache{}, map[string]*preemption.DryRunCache{}}
		for profile := range d.profiles {
			c.memory.statuses[profile] = &schedule.EquivalenceCache{}
			c.memory.searches[profile] = &preemption.DryRunCache{}
		}
	}
	nodes := 1 + c.IntN(10)
	for i := range nodes {
		c.cache.SetNode(c.node(i))
	}
	for i := range c.IntN(4 * nodes) {
		c.cache.SetPod(admitted(c.runningPod(i, nodes)))
	}
	c.budgets = c.objectGenerator.budgets()
	vols, rooms := c.freeVolumes(nodes)
	claims, bound, class := volumes()
	yes, no, mode := true, false, storagev1.VolumeBindingWaitForFirstConsumer
	c.objects = []runtime.Object{class, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec: storagev1.CSIDriverSpec{StorageCapacity: &yes, AttachRequired: &no}}}
	for name, by := range map[string]string{counted: driver, anywhere: "other.example.com"} {
		c.objects = append(c.objects, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name},
			Provisioner: by, VolumeBindingMode: &mode})
	}
	for _, claim := range claims {
		claim.UID = types.UID(claim.Namespace + "/" + claim.Name)
		c.objects = append(c.objects, claim)
	}
	for _, v := range append(vols, bound...) {
		if r := v.Spec.ClaimRef; r != nil {
			r.UID = types.UID(r.Namespace + "/" + r.Name)
		}
		c.objects = append(c.objects, v)
	}
	for _, room := range rooms {
		c.objects = append(c.objects, room)
	}
	return c
}

// admitted is a Pod as the API server keeps it, as far as schedulers read it.
func admitted(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	p.UID = types.UID(p.Namespace + "/" + p.Name)
	priority := int32(10 * (1 + slices.Index(classes, p.Spec.PriorityClassName)))
	if p.Spec.PriorityClassName == modest {
		never := v1.PreemptNever
		priority, p.Spec.PreemptionPolicy = 25, &never
	}
	p.Spec.Priority = &priority
	podspec.MergeMatchLabelKeys(p)
	return p
}

// compare decides about each Pod and says how many were compared.
func (c *decidedCluster) compare(t *testing.T, recorded []outcome) (compared int) {
	for n := range podsPerCluster {
		name := "new"
		if c.oneIn(15) {
			name = banned
		}
		p := c.newcomer(fmt.Sprintf("%s-%d-%d", name, c.seed, n), profiles)
		stays, _ := c.oneIn(2), c.oneIn(2)
		theirs := recorded[n]
		if len(p.Spec.SchedulingGates) == 0 && !theirs.Stuck {
			compared++
			ours := c.decide(t, p)
			if name == banned && theirs.Condition != "" && ours.Node != "" { // only the binding failed
				ours.Node, ours.Condition, ours.Event = "", theirs.Condition, theirs.Event
				ours.Nominated = theirs.Nominated
			}
			theirs.Volumes = nil // they are chosen when a Pod is bound
			if theirs.Condition == "" {
				theirs.Nominated = ""
			}
			if off := differ(ours, theirs); len(off) > 0 {
				t.Errorf("seed %d, %s (profile %s):\n%s\n%s", c.seed, p.Name, p.Spec.SchedulerName,
					strings.Join(off, "\n"), describe(p))
			}
		}
		if stays && recorded[n].Node != "" {
			q := renamed(p, p.Name+"-stays")
			start := metav1.NewTime(began.Add(time.Duration(n) * time.Hour))
			q.Spec.NodeName, q.Status = recorded[n].Node, v1.PodStatus{Phase: v1.PodRunning, StartTime: &start}
			c.cache.SetPod(admitted(q))
		}
	}
	return compared
}

// decide schedules a Pod and, when it fits nowhere, looks for victims.
func (c *decidedCluster) decide(t *testing.T, p *v1.Pod) (got outcome) {
	profile := p.Spec.SchedulerName
	p = admitted(p)
	c.volumes = volumelisters.Of(append(c.claimsOf(p), c.objects...)...)
	state := frameworkruntime.NewCycleState()
	in := schedule.Input{Pod: p, Snapshot: c.cache.UpdateSnapshot(), Plugins: c.profiles[profile].Plugins, State: state,
		PickTie: rand.New(rand.NewPCG(c.seed, 1)).IntN}
	c.search, c.found = preemption.Input{Input: in, Budgets: c.budgets, Percent: 10, Absolute: 100},
		preemption.Candidate{}
	if c.memory != nil {
		in.Cache, c.search.SearchCache = c.memory.statuses[profile], c.memory.searches[profile]
	}
	r := schedule.SchedulePod(t.Context(), in)
	got.Node, got.Scores = r.SuggestedHost, scores{}
	for _, s := range r.Scores(1 << 10) {
		if len(s.Parts) == 0 {
			continue // one node was left
		}
		got.Scores[s.Node] = map[string]int64{"": s.Total}
		for _, part := range s.Parts {
			if part.Weighted != 0 {
				got.Scores[s.Node][part.Plugin] = part.Weighted
			}
		}
	}
	if got.Node != "" {
		return got
	}
	reason := "Unschedulable"
	if r.Failed() {
		reason = "SchedulerError"
	} else if r.Nodes() > 0 {
		_, status := c.profiles[profile].RunPostFilterPlugins(t.Context(),
			frameworkruntime.PodCycle{State: state, Pod: p},
			r.NodeToStatus())
		r.PostFilterMsg = status.Message()
		got.Node, got.Nominated = c.found.Node, c.found.Node // once the victims are gone
		for _, v := range c.found.Victims {
			got.Victims = append(got.Victims, v.Namespace+"/"+v.Name)
		}
		slices.Sort(got.Victims)
	}
	got.Condition = reason + ": " + r.Message()
	got.Event = "Warning FailedScheduling Scheduling: " + r.Message()
	return got
}

// claimsOf makes the claims that a Pod wants for itself.
func (c *decidedCluster) claimsOf(p *v1.Pod) (out []runtime.Object) {
	if p.Annotations[wants] == "" {
		return nil
	}
	for i, one := range strings.Split(p.Annotations[wants], ",") {
		class, size, _ := strings.Cut(one, "=")
		name := fmt.Sprintf("%s-%d", p.Name, i)
		out = append(out, &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.Namespace,
			UID: types.UID(p.Namespace + "/" + name)},
			Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class,
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				Resources: v1.VolumeResourceRequirements{
					Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}}}})
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprintf("own-%d", i),
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
				ClaimName: name}}})
	}
	return out
}
