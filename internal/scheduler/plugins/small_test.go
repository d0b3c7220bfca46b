package plugins_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/imagelocality"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodedeclaredfeatures"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumezone"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// podGroups are PodGroups with so many Pods, by name.
type podGroups struct {
	framework.PodGroupManager
	groups map[string]*schedulingv1beta1.PodGroup
	pods   map[string]int
}

func (g podGroups) PodGroups() framework.PodGroupLister           { return gangLister(g) }
func (g podGroups) PodGroupStates() framework.PodGroupStateLister { return gangStates(g) }

type gangLister podGroups

func (g gangLister) Get(namespace, name string) (*schedulingv1beta1.PodGroup, error) {
	if found := g.groups[namespace+"/"+name]; found != nil {
		return found, nil
	}
	return nil, errors.New("no group")
}

type gangStates podGroups

type gangState struct {
	framework.PodGroupState
	all int
}

func (s gangState) AllPodsCount() int { return s.all }

func (g gangStates) Get(namespace, name string) (framework.PodGroupState, error) {
	if n, ok := g.pods[namespace+"/"+name]; ok {
		return gangState{all: n}, nil
	}
	return nil, errors.New("no state of the group")
}

func statusLine(s *framework.Status) string {
	if s == nil {
		return "Success"
	}
	return s.Code().String() + ": " + s.Message()
}

func TestAGangWaitsForItsPods(t *testing.T) {
	pl := gangscheduling.New(podGroups{groups: map[string]*schedulingv1beta1.PodGroup{"ns/g": group("g", 3),
		"ns/basic": group("basic", 0), "ns/unknown": group("unknown", 2), "ns/few": group("few", 3)},
		pods: map[string]int{"ns/g": 3, "ns/few": 2}})
	for name, c := range map[string]struct {
		p    *v1.Pod
		want string
	}{
		"no group": {newPod("p"), "Success"},
		"without a name": {newPod("p", func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{} }),
			"Success"},
		"complete":       {newPod("p", inGroup("g")), "Success"},
		"one is to come": {newPod("p", inGroup("few")), "UnschedulableAndUnresolvable: " + gangscheduling.TooFew},
		"a basic group":  {newPod("p", inGroup("basic")), "Success"},
		"not there": {newPod("p", inGroup("gone")),
			"UnschedulableAndUnresolvable: waiting for pods's pod group \"gone\" to appear in scheduling queue"},
		"in another place": {newPod("p", inGroup("g"), inNamespace("ns2")),
			"UnschedulableAndUnresolvable: waiting for pods's pod group \"g\" to appear in scheduling queue"},
		"without a state": {newPod("p", inGroup("unknown")), "Error: no state of the group"},
	} {
		if got := statusLine(pl.PreEnqueue(t.Context(), c.p)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	if want := "waiting for minCount pods from a gang to appear in scheduling queue"; gangscheduling.TooFew != want {
		t.Errorf("got %q, want %q", gangscheduling.TooFew, want)
	}
	hint := func(before any) framework.QueueingHint {
		events, err := pl.EventsToRegister(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := events[2].QueueingHintFn(logr.Discard(), newPod("p", inGroup("g")), before, group("g", 3))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for what, before := range map[string]any{"nothing": nil, "another kind": "g",
		"none": (*schedulingv1beta1.PodGroup)(nil)} {
		if got := hint(before); got != framework.Queue {
			t.Errorf("before it was %s: got %v, want Queue", what, got)
		}
	}
}

// row: SCO-06
func TestImageLocalityScores(t *testing.T) {
	const mb = 1 << 20
	holds := func(size int64, names ...string) func(*v1.Node) {
		return func(n *v1.Node) {
			n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: names, SizeBytes: size})
		}
	}
	full := holds(1000*mb, "reg:5000/a:latest")
	for name, c := range map[string]struct {
		p     *v1.Pod
		nodes []*v1.Node
		want  string
	}{
		"on one node of two": {images("", "reg:5000/a", ""), []*v1.Node{newNode("a", full), newNode("b")}, "48 0"},
		// half of 1000 MB counts
		"on both": {images("", "reg:5000/a", ""), []*v1.Node{newNode("a", full), newNode("b", full)},
			"100 100"},
		"another tag": {images("", "reg:5000/a:1", ""), []*v1.Node{newNode("a", full)}, "0"},
		"a tag that is there": {images("", "reg:5000/a:1", ""), []*v1.Node{newNode("a", holds(1000*mb,
			"reg:5000/a:1"))}, "100"},
		"by its second name": {images("", "b:1", ""), []*v1.Node{newNode("a", holds(1000*mb, "a:1", "b:1"))},
			"100"},
		"one of two":               {images("", "reg:5000/a b", ""), []*v1.Node{newNode("a", full)}, "49"},
		"of an init container":     {images("reg:5000/a", "b", ""), []*v1.Node{newNode("a", full)}, "49"},
		"that is mounted":          {images("", "b", "reg:5000/a"), []*v1.Node{newNode("a", full)}, "49"},
		"of three":                 {images("c", "b", "reg:5000/a"), []*v1.Node{newNode("a", full)}, "32"},
		"too large":                {images("", "a:1", ""), []*v1.Node{newNode("a", holds(2000*mb, "a:1"))}, "100"},
		"at the least that counts": {images("", "a:1", ""), []*v1.Node{newNode("a", holds(23*mb, "a:1"))}, "0"},
		"below":                    {images("", "a:1", ""), []*v1.Node{newNode("a", holds(1, "a:1"))}, "0"},
		"a hundredth above":        {images("", "a:1", ""), []*v1.Node{newNode("a", holds(33*mb, "a:1"))}, "1"},
		"no image anywhere":        {images("", "a:1", ""), []*v1.Node{newNode("a")}, "0"},
	} {
		s := snapshot.Of(c.nodes, nil)
		for form, cache := range map[string]*schedule.EquivalenceCache{"node by node": nil, "by columns": {}} {
			r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: c.p, Snapshot: s, Cache: cache,
				Plugins: schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: imagelocality.New()})})
			got := map[string]int64{}
			for _, line := range r.Scores(9) {
				if len(line.Parts) > 0 {
					got[line.Node] = line.Parts[0].Raw
				}
			}
			var texts []string
			for _, n := range c.nodes {
				if len(c.nodes) == 1 { // one node is not scored
					state := schedule.NewCycleState()
					got["a"], _ = imagelocality.New().Score(t.Context(), state, c.p, s.Node("a"))
				}
				texts = append(texts, fmt.Sprint(got[n.Name]))
			}
			if text := strings.Join(texts, " "); text != c.want {
				t.Errorf("%s, %s: got %s, want %s", name, form, text, c.want)
			}
		}
	}
	pl := imagelocality.New()
	if pl == nil || pl.Name() != "ImageLocality" || pl.ScoreExtensions() != nil {
		t.Errorf("got %v", pl)
	}
}

// zoneFailing are listers that fail for a reason of their own.
type zoneFailing struct {
	volumelisters.Listers
	claim, volume, class error
}

func (z zoneFailing) Claim(ns, name string) (*v1.PersistentVolumeClaim, error) {
	if z.claim != nil {
		return nil, z.claim
	}
	return z.Listers.Claim(ns, name)
}

func (z zoneFailing) Volume(name string) (*v1.PersistentVolume, error) {
	if z.volume != nil {
		return nil, z.volume
	}
	return z.Listers.Volume(name)
}

func (z zoneFailing) Class(name string) (*storagev1.StorageClass, error) {
	if z.class != nil {
		return nil, z.class
	}
	return z.Listers.Class(name)
}

func TestVolumeZonePreFilter(t *testing.T) {
	down, p := errors.New("down"), newPod("p", mounts("data"))
	none := newClaim("data", "", "1Gi")
	noMode := newClass("zonal", "x", later)
	noMode.VolumeBindingMode = nil
	bound := newClaim("data", "zonal", "1Gi", boundTo("pv"))
	zonal := newVolume("pv", "zonal", "1Gi", volumeLabel(v1.LabelTopologyZone, "1"))
	for name, c := range map[string]struct {
		p       *v1.Pod
		fail    zoneFailing
		objects []runtime.Object
		want    string
	}{
		"no volumes": {p: newPod("p"), want: "Skip: "},
		"a claim of no name": {p: newPod("p", mounts("")),
			want: "UnschedulableAndUnresolvable: PersistentVolumeClaim had no name"},
		"no such claim":         {p: p, want: `UnschedulableAndUnresolvable: persistentvolumeclaim "data" not found`},
		"claims cannot be read": {p: p, fail: zoneFailing{claim: down}, want: "Error: down"},
		"neither volume nor class": {p: p, objects: []runtime.Object{none},
			want: "UnschedulableAndUnresolvable: PersistentVolumeClaim had no pv name and storageClass name"},
		"no such class": {p: p, objects: []runtime.Object{newClaim("data", "zonal", "1Gi")},
			want: `UnschedulableAndUnresolvable: storageclass.storage.k8s.io "zonal" not found`},
		"classes cannot be read": {p: p, objects: []runtime.Object{newClaim("data", "zonal", "1Gi")},
			fail: zoneFailing{class: down}, want: "Error: down"},
		"a class without a mode": {p: p, objects: []runtime.Object{newClaim("data", "zonal", "1Gi"), noMode},
			want: `UnschedulableAndUnresolvable: VolumeBindingMode not set for StorageClass "zonal"`},
		"an immediate one": {p: p, objects: []runtime.Object{newClaim("data", "zonal", "1Gi"),
			newClass("zonal", "x", now)},
			want: "UnschedulableAndUnresolvable: PersistentVolume had no name"},
		"one that waits": {p: p, objects: []runtime.Object{newClaim("data", "zonal", "1Gi"),
			newClass("zonal", "x", later)},
			want: "Skip: "},
		"no such volume": {p: p, objects: []runtime.Object{bound},
			want: `UnschedulableAndUnresolvable: persistentvolume "pv" not found`},
		"volumes cannot be read": {p: p, objects: []runtime.Object{bound}, fail: zoneFailing{volume: down},
			want: "Error: down"},
		"a volume without labels": {p: p, objects: []runtime.Object{bound, newVolume("pv", "zonal", "1Gi")},
			want: "Skip: "},
		"a volume with one": {p: p, objects: []runtime.Object{bound, zonal}, want: "Success"},
		"other volumes beside it": {p: newPod("p", func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "e"}} },
			mounts("data")),
			objects: []runtime.Object{bound, zonal}, want: "Success"},
	} {
		c.fail.Listers = volumelisters.Of(c.objects...)
		pl := volumezone.New(c.fail)
		r, s := pl.PreFilter(t.Context(), schedule.NewCycleState(), c.p, nil)
		if got := statusLine(s); got != c.want || r != nil {
			t.Errorf("%s: got %v, %s, want %s", name, r, got, c.want)
		}
		if skips := pl.Skips(c.p, nil); skips != (len(c.p.Spec.Volumes) == 0) {
			t.Errorf("%s: it skips the Pod: %t, want %v", name, skips, (len(c.p.Spec.Volumes) == 0))
		}
	}
	if _, s := volumezone.New(nil).PreFilter(t.Context(), schedule.NewCycleState(), p,
		nil); s.Code() != framework.Skip {
		t.Errorf("without listers: got %s, want Skip", statusLine(s))
	}
}

func TestVolumeZoneExplanations(t *testing.T) {
	nodes := []*v1.Node{newNode("a", label(v1.LabelTopologyZone, "1")),
		newNode("b", label(v1.LabelTopologyRegion, "r"))}
	for name, c := range map[string]struct {
		key, value string
		a, b       string
	}{
		"several zones": {v1.LabelTopologyZone, "2__ 3 ", "the node has 1", "the node has no such label"},
		"an old label":  {v1.LabelFailureDomainBetaZone, "2__ 3 ", "the node has 1", "the node has no such label"},
	} {
		v := newVolume("pv", "zonal", "1Gi", volumeLabel(c.key, c.value))
		r := schedulePod(newPod("p", mounts("data")),
			volumezone.New(volumelisters.Of(newClaim("data", "zonal", "1Gi", boundTo("pv")), v)),
			snapshot.Of(nodes, nil))
		where := c.key + "=2 or 3"
		for node, has := range map[string]string{"a": c.a, "b": c.b} {
			want := "UnschedulableAndUnresolvable: node(s) had no available volume zone | claim ns/data is bound to " +
				"volume pv in " +
				where + ", " + has + " | make room on a node with " + where + ", or add one there"
			if got := statusText(r, node); got != want {
				t.Errorf("%s, %s:\n got %s\nwant %s", name, node, got, want)
			}
		}
	}
	pl := volumezone.New(volumelisters.Of())
	if s := pl.Filter(t.Context(), schedule.NewCycleState(), newPod("p"), snapshot.NewNodeInfo(nodes[0])); s != nil {
		t.Errorf("without PreFilter: got %s, want success", statusLine(s))
	}
	if e := pl.Explain(t.Context(), schedule.NewCycleState(), newPod("p"),
		snapshot.NewNodeInfo(nodes[0])); e.Detail != "" {
		t.Errorf("nothing to explain: got %v", e)
	}
}

func TestVolumeZoneHints(t *testing.T) {
	zone := func(key, value string) *v1.PersistentVolume {
		return newVolume("pv", "c", "1Gi", volumeLabel(key, value))
	}
	immediate, noMode := newClass("c", "x", now), newClass("c", "x", later)
	noMode.VolumeBindingMode = nil
	for name, c := range map[string]struct {
		about         framework.EventResource
		before, after any
		want          string
	}{
		"a class that waits":    {framework.StorageClass, nil, newClass("c", "x", later), "Queue"},
		"one that does not":     {framework.StorageClass, nil, immediate, "QueueSkip"},
		"one that does not say": {framework.StorageClass, nil, noMode, "QueueSkip"},
		"a volume comes":        {framework.PersistentVolume, nil, zone(v1.LabelTopologyZone, "1"), "Queue"},
		"its zone changes": {framework.PersistentVolume, zone(v1.LabelTopologyZone, "1"),
			zone(v1.LabelTopologyZone, "2"), "Queue"},
		"a zone is added": {framework.PersistentVolume, zone(v1.LabelTopologyZone, "1"),
			zone(v1.LabelTopologyZone, "1__2"), "Queue"},
		"its region, not its zone": {framework.PersistentVolume, zone(v1.LabelTopologyZone, "1"),
			zone(v1.LabelTopologyRegion, "1"), "Queue"},
		"a label that is not read": {framework.PersistentVolume, zone("a", "1"), zone("a", "2"), "QueueSkip"},
		"of two zones one is other": {framework.PersistentVolume, zone(v1.LabelTopologyZone, "1__2"),
			zone(v1.LabelTopologyZone, "1__3"), "Queue"},
		"written another way": {framework.PersistentVolume, zone(v1.LabelTopologyZone, "1__2"),
			zone(v1.LabelTopologyZone, " 1 __2"), "QueueSkip"},
	} {
		if got := hint(t, volumezone.New(nil), c.about, framework.Add, newPod("p"),
			[2]any{c.before, c.after}); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// ofOtherFeatures is a NodeInfo that was made for other features than this release knows.
type ofOtherFeatures struct{ framework.NodeInfo }

func (ofOtherFeatures) GetNodeDeclaredFeatures() ndf.FeatureSet { return ndf.FeatureSet{} }

func TestNodeDeclaredFeaturesOfAllForms(t *testing.T) {
	const feature = "RestartAllContainersOnContainerExits"
	pl, state, p := nodedeclaredfeatures.New(), schedule.NewCycleState(), newPod("p", restartsAll)
	old, new := newNode("old", declares("Other")), newNode("new", declares("Other", feature))
	if s := pl.Filter(t.Context(), state, p, snapshot.NewNodeInfo(old)); s != nil {
		t.Errorf("without PreFilter: got %s, want success", statusLine(s))
	}
	if _, s := pl.PreFilter(t.Context(), state, newPod("plain"), nil); s.Code() != framework.Skip {
		t.Errorf("a Pod that needs nothing: got %s, want Skip", statusLine(s))
	}
	r, s := pl.PreFilter(t.Context(), state, p, nil)
	if r != nil || s != nil {
		t.Errorf("got %v, %s, want success", r, statusLine(s))
	}
	want := "UnschedulableAndUnresolvable: node declared features check failed - unsatisfied requirements: " + feature
	if got := pl.Filter(t.Context(), state.Clone(), p, snapshot.NewNodeInfo(old)); statusLine(got) != want ||
		got.Plugin() != "NodeDeclaredFeatures" {
		t.Errorf("got  %s of %s\nwant %s", statusLine(got), got.Plugin(), want)
	}
	if got := pl.Filter(t.Context(), state, p, snapshot.NewNodeInfo(new)); got != nil {
		t.Errorf("got %s, want success", statusLine(got))
	}
	e := pl.Explain(t.Context(), state, p, snapshot.NewNodeInfo(old))
	if got, want := string(e.Code)+"; "+e.Detail+"; "+e.Fix,
		"FeatureMissing; the node declares [Other], the Pod needs "+
			feature+"; use a node whose kubelet has "+feature+", or do without it"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if e := pl.Explain(t.Context(), state, p, snapshot.NewNodeInfo(new)); e.Detail != "" {
		t.Errorf("nothing to explain: got %v", e)
	}
	other := ofOtherFeatures{snapshot.NewNodeInfo(new)}
	if got := statusLine(pl.Filter(t.Context(), state, p, other)); !strings.HasPrefix(got, "Error: ") {
		t.Errorf("a NodeInfo made for other features: got %s, want an error", got)
	}
	if e := pl.Explain(t.Context(), state, p, other); e.Code != "" {
		t.Errorf("a NodeInfo made for other features: got %v, want no explanation", e)
	}
	state = schedule.NewCycleState()
	no := false
	two := newPod("p", restartsAll, func(p *v1.Pod) { p.Spec.HostNetwork, p.Spec.HostUsers = true, &no })
	if _, s := pl.PreFilter(t.Context(), state, two, nil); s != nil {
		t.Errorf("two features: got %s, want success", statusLine(s))
	}
	all := feature + ", UserNamespacesHostNetworkSupport"
	if got, want := statusLine(pl.Filter(t.Context(), state, two, snapshot.NewNodeInfo(old))),
		"UnschedulableAndUnresolvable: node declared features check failed - unsatisfied requirements: "+
			all; got != want {
		t.Errorf("two features:\n got %s\nwant %s", got, want)
	}
	if e := pl.Explain(t.Context(), state, two, snapshot.NewNodeInfo(old)); e.Detail !=
		"the node declares [Other], the Pod needs "+all ||
		e.Fix != "use a node whose kubelet has "+all+", or do without it" {
		t.Errorf("two features: explained as %s; %s, want %v, %v", e.Detail, e.Fix,
			"the node declares [Other], the Pod needs "+all, "use a node whose kubelet has "+all+", or do without it")
	}
	if got := statusLine(pl.Filter(t.Context(), state, two, snapshot.NewNodeInfo(new))); got !=
		"UnschedulableAndUnresolvable: node declared features check failed - unsatisfied requirements: "+
			"UserNamespacesHostNetworkSupport" {
		t.Errorf("one of two: got %s, want %v", got,
			"UnschedulableAndUnresolvable: node declared features check failed - unsatisfied requirements: "+
				"UserNamespacesHostNetworkSupport")
	}
	for name, c := range map[string]struct {
		before, after *v1.Node
		want          string
	}{
		"another feature is declared": {old, newNode("old", declares("Other", "More")), "QueueSkip"},
		"it is":                       {old, new, "Queue"},
		"in another order":            {newNode("new", declares(feature, "Other")), new, "Queue"},
	} {
		if got := hint(t, pl, framework.Node, framework.UpdateNodeDeclaredFeature, p,
			[2]any{c.before, c.after}); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
