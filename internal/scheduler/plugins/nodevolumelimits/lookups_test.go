package nodevolumelimits

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodechanges"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/wrappers"
)

// watched are listers that note for which nodes the CSINode is asked for, and whether volumes are
// looked up.
type watched struct {
	*volumelisters.Objects
	nodes   []string
	volumes int
}

func (w *watched) CSINode(node string) *storagev1.CSINode {
	w.nodes = append(w.nodes, node)
	return w.Objects.CSINode(node)
}

func (w *watched) Volume(name string) (*v1.PersistentVolume, error) {
	w.volumes++
	return w.Objects.Volume(name)
}

// asked is the nodes asked for since the last call.
func (w *watched) asked() string {
	slices.Sort(w.nodes)
	out := strings.Join(slices.Compact(w.nodes), " ")
	w.nodes = nil
	return out
}

// loggedChanges are watched listers that say what changed.
type loggedChanges struct {
	*watched
	*nodechanges.Log
}

func csiNode(node string, limits ...any) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}
	for i := 0; i < len(limits); i += 2 {
		n.Spec.Drivers = append(n.Spec.Drivers, storagev1.CSINodeDriver{Name: limits[i].(string),
			Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(limits[i+1].(int)))}})
	}
	return n
}

// volumes are v0 to v9 of driver d, w0 to w9 of driver e, each with a claim of its name.
func volumes() (all []runtime.Object) {
	for _, prefix := range []string{"v", "w"} {
		for i := range 10 {
			name := fmt.Sprint(prefix, i)
			driver := map[string]string{"v": "d", "w": "e"}[prefix]
			all = append(all, &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
				Spec: v1.PersistentVolumeClaimSpec{VolumeName: name}},
				&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
					Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
						CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}}}})
		}
	}
	return all
}

func podOn(node, uid string, claims ...string) *v1.Pod {
	p := wrappers.MakePod().Namespace("ns").Name(uid).UID(uid).Node(node).Obj()
	for _, c := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: c, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: c}}})
	}
	return p
}

// What stands is not read again: a cycle asks for the CSINodes of nodes whose Pods, labels or
// limits changed since the last one, for all when nodes came or went or when nobody knows what
// changed, and then has room or not as they say now.
func TestOnlyWhatChangedIsReadAgain(t *testing.T) {
	t.Parallel()
	const all = "n0 n1 n2"
	w := &watched{}
	f := loggedChanges{w, &nodechanges.Log{}}
	limits := map[string]*storagev1.CSINode{}
	set := func(n *storagev1.CSINode) {
		limits[n.Name] = n
		objects := volumes()
		for _, l := range limits {
			objects = append(objects, l)
		}
		w.Objects = volumelisters.Of(objects...)
	}
	cache := snapshot.NewCache()
	for i := range 3 {
		name := fmt.Sprint("n", i)
		cache.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		set(csiNode(name, "d", 3))
	}
	pl := New(f)
	schedules := func(claims ...string) func(what, asked, fits string) {
		return func(what, asked, fits string) {
			t.Helper()
			w.nodes = nil
			p := podOn("", "new", claims...)
			r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: p, Snapshot: cache.UpdateSnapshot(),
				Plugins: schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: pl})})
			got := "all"
			if !r.State.GetSkipFilterPlugins().Has(Name) {
				got = fmt.Sprint(r.Feasible())
			}
			if read := w.asked(); read != asked || got != fits {
				t.Errorf("%s: asked for %q and fits on %s, want %q and %s", what, read, got, asked, fits)
			}
		}
	}
	one := schedules("v0")
	one("at first", all, "all")
	one("nothing changed", "", "all")
	cache.SetPod(podOn("n1", "p", "v1"))
	one("a Pod came", "n1", "all")
	one("and stays", "", "all")
	set(csiNode("n2", "d", 2))
	f.Note("n2")
	one("a limit fell", "n2", "all")
	one("and stays", "", "all")
	f.Note("elsewhere")
	one("of a node that is not there", "", "all")
	f.NoteAll()
	one("of any node", all, "all")
	cache.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3"}})
	set(csiNode("n3"))
	one("a node came", all+" n3", "all")
	cache.RemoveNode("n3")
	one("a node went", all, "all")
	set(csiNode("n1"))
	f.Note("n1")
	one("a limit went", "n1", "all")
	set(csiNode("n1", "d", 1))
	f.Note("n1")
	// read once for the column, and once by Filter, as is every node then
	one("as many as there are", "n1", "2")
	one("and stays", "n1", "2")
	set(csiNode("n1"))
	f.Note("n1")
	one("the limit that was near went", "n1", "all")
	silent := csiNode("n1")
	silent.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "c"}, {Name: "d"}}
	set(silent)
	f.Note("n1")
	one("drivers that say none", "n1", "all")
	both := csiNode("n1", "d", 1)
	both.Spec.Drivers = append([]storagev1.CSINodeDriver{{Name: "c"}}, both.Spec.Drivers...)
	set(both)
	f.Note("n1")
	one("one that does after one that does not", "n1", "2")
	cache.RemovePod("p")
	one("the Pod went", "n1", "all")
	two := schedules("v0", "v2")
	two("two volumes", "n1", "2")
	schedules("v0", "v1", "v2")("three volumes", "n1 n2", "1")
	schedules("v0", "w1", "w2", "w3")("of another driver without limits", "", "all")
	schedules("w1", "w2", "w3", "w4")("of another driver alone", "", "all")
	set(csiNode("n0", "d", 3, "e", 1))
	f.Note("n0")
	schedules("w1", "w2")("the other driver has a limit, too", "n0", "2")
	schedules("w1")("as much as the limit", "", "all")
	schedules("v0", "v1", "v2", "v3")("too many for all", all, "0")
}

// A node that may have too little room is looked at in full, and no other; how much there is at
// most is known only of nodes that count.
func TestRoomIsKnownWithoutLookups(t *testing.T) {
	t.Parallel()
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: storagev1.VolumeAttachmentSpec{NodeName: "n",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v9")}}}
	ebs := podOn("n", "inline")
	ebs.Spec.Volumes = []v1.Volume{{Name: "e", VolumeSource: v1.VolumeSource{
		AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol"}}}}
	for name, c := range map[string]struct {
		limits []any
		there  []*v1.Pod
		more   []runtime.Object
		claims []string
		plain  bool // a NodeInfo that does not count
		looks  bool
		fits   bool
	}{
		"far from it":  {limits: []any{"d", 5}, claims: []string{"v0"}, fits: true},
		"just as many": {limits: []any{"d", 1}, claims: []string{"v0"}, fits: true},
		"just as many with another": {limits: []any{"d", 2}, there: []*v1.Pod{podOn("n", "p", "v1")},
			claims: []string{"v0"}, fits: true},
		"one of another driver is taken for one of it": {limits: []any{"d", 1}, there: []*v1.Pod{podOn("n", "p", "w1")},
			claims: []string{"v0"}, looks: true, fits: true},
		"one in the Pod is taken for one of it": {limits: []any{"d", 1}, there: []*v1.Pod{ebs}, claims: []string{"v0"},
			looks: true, fits: true},
		"one too many": {limits: []any{"d", 1}, there: []*v1.Pod{podOn("n", "p", "v1")}, claims: []string{"v0"},
			looks: true},
		"the same one": {limits: []any{"d", 1}, there: []*v1.Pod{podOn("n", "p", "v0")}, claims: []string{"v0"},
			looks: true, fits: true},
		"still attached": {limits: []any{"d", 1}, more: []runtime.Object{attachment}, claims: []string{"v0"},
			looks: true},
		"still attached, with room": {limits: []any{"d", 2}, more: []runtime.Object{attachment}, claims: []string{"v0"},
			fits: true},
		"nothing may be attached":        {limits: []any{"d", 0}, claims: []string{"v0"}, looks: true},
		"far from both":                  {limits: []any{"d", 5, "e", 5}, claims: []string{"v0", "w0"}, fits: true},
		"one of both is full":            {limits: []any{"d", 5, "e", 0}, claims: []string{"v0", "w0"}, looks: true},
		"the other of both is full":      {limits: []any{"d", 0, "e", 5}, claims: []string{"v0", "w0"}, looks: true},
		"only the other one has a limit": {limits: []any{"e", 1}, claims: []string{"v0", "v1", "w0"}, fits: true},
		"nobody counts": {limits: []any{"d", 5}, claims: []string{"v0"}, plain: true, looks: true,
			fits: true},
		"nobody counts, one too many": {limits: []any{"d", 1}, there: []*v1.Pod{podOn("n", "p", "v1")},
			claims: []string{"v0"},
			plain:  true, looks: true},
	} {
		w := &watched{Objects: volumelisters.Of(append(append(volumes(), c.more...), csiNode("n", c.limits...),
			csiNode("another", "d", 9, "e", 9))...)}
		pl, state, p := New(w), schedule.NewCycleState(), podOn("", "new", c.claims...)
		if _, s := pl.PreFilter(t.Context(), state, p, nil); s != nil {
			t.Errorf("%s: PreFilter gave %v, want success", name, s)
			continue
		}
		n := snapshot.Of([]*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}, c.there).At(0)
		if c.plain {
			n = struct{ framework.NodeInfo }{n}
		}
		w.volumes = 0
		s := pl.Filter(t.Context(), state, p, n)
		if s.IsSuccess() != c.fits || (w.volumes > 0) != c.looks {
			t.Errorf("%s: %v with %d lookups, want fits %t and lookups %t", name, s, w.volumes, c.fits, c.looks)
		}
		if s != nil && (s.Code() != framework.Unschedulable || s.Message() != Reason || s.Plugin() != Name) {
			t.Errorf("%s: got %v of %q: %q", name, s.Code(), s.Plugin(), s.Message())
		}
	}
}

// Who has nothing to attach, or nothing that anybody limits, is skipped; a state of nobody, too, is
// looked at in full.
func TestWhoIsSkipped(t *testing.T) {
	t.Parallel()
	limited, unlimited := volumelisters.Of(append(volumes(), csiNode("n", "d", 1))...), volumelisters.Of(volumes()...)
	silent := csiNode("n")
	silent.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "d"},
		{Name: "e", Allocatable: &storagev1.VolumeNodeResources{}}}
	without := podOn("", "p")
	without.Spec.Volumes = []v1.Volume{{Name: "e", VolumeSource: v1.VolumeSource{
		EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	for name, c := range map[string]struct {
		f    volumelisters.Listers
		p    *v1.Pod
		want bool
	}{
		"no listers":              {nil, podOn("", "p", "v0"), true},
		"no volumes":              {limited, podOn("", "p"), true},
		"none to attach":          {limited, without, true},
		"of a driver of no limit": {limited, podOn("", "p", "w0"), true},
		"no limits":               {unlimited, podOn("", "p", "v0"), true},
		"drivers that say none":   {volumelisters.Of(append(volumes(), silent)...), podOn("", "p", "v0", "w0"), true},
		"one of a limit":          {limited, podOn("", "p", "v0"), false},
		"one of two of a limit":   {limited, podOn("", "p", "w0", "v0"), false},
	} {
		_, s := New(c.f).PreFilter(t.Context(), schedule.NewCycleState(), c.p, nil)
		if s.IsSkip() != c.want || !s.IsSkip() && s != nil {
			t.Errorf("%s: got %v, want skip %t", name, s, c.want)
		}
	}
	pl := New(limited)
	n := snapshot.Of([]*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}, []*v1.Pod{podOn("n", "q", "v1")}).At(0)
	if s := pl.Filter(t.Context(), schedule.NewCycleState(), podOn("", "p", "v0"),
		n); s.Code() != framework.Unschedulable {
		t.Errorf("without PreFilter: got %v, want Unschedulable", s)
	}
	if s := pl.Filter(t.Context(), schedule.NewCycleState(), podOn("", "p", "v1"), n); s != nil {
		t.Errorf("without PreFilter, the same volume: got %v, want success", s)
	}
	e := pl.Explain(t.Context(), schedule.NewCycleState(), podOn("", "p", "v0"), n)
	if got, want := e.Detail+"; "+e.Fix, "driver d attaches at most 1 volumes here, 1 are there and the Pod needs 1 "+
		"more; remove a Pod with volumes of that driver from the node, or add a node"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if e := pl.Explain(t.Context(), schedule.NewCycleState(), podOn("", "p", "v1"), n); e.Code != "" || e.Detail != "" {
		t.Errorf("nothing to explain: got %v", e)
	}
}

// Snapshots that are changed for one question are read anew each time, though they list the same
// nodes.
func TestChangedSnapshotsAreReadAnew(t *testing.T) {
	t.Parallel()
	f := loggedChanges{&watched{Objects: volumelisters.Of(append(volumes(), csiNode("n", "d", 1))...)},
		&nodechanges.Log{}}
	pl, truth := New(f), snapshot.Of([]*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}, nil)
	full, err := truth.WithPod(expect.Value(snapshot.NewPodInfo(podOn("n", "q", "v1"))), "n")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 0, 1, 0, 0, 1} {
		snap := map[int]*snapshot.Snapshot{0: full, 1: truth}[want]
		r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: podOn("", "p", "v0"), Snapshot: snap,
			Plugins: schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: pl})})
		if r.Feasible() != want {
			t.Errorf("question %d: fits on %d, want %d", i, r.Feasible(), want)
		}
	}
}

func TestHintsOfLimits(t *testing.T) {
	t.Parallel()
	silent := csiNode("n")
	silent.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "d", Allocatable: &storagev1.VolumeNodeResources{}}}
	for name, c := range map[string]struct {
		before, after any
		want          framework.QueueingHint
	}{
		"one comes":                  {nil, csiNode("n", "d", 1), framework.Queue},
		"it stays":                   {csiNode("n", "d", 1), csiNode("n", "d", 1), framework.QueueSkip},
		"it rises":                   {csiNode("n", "d", 1), csiNode("n", "d", 2), framework.Queue},
		"it falls":                   {csiNode("n", "d", 2), csiNode("n", "d", 1), framework.QueueSkip},
		"it goes":                    {csiNode("n", "d", 1), csiNode("n"), framework.Queue},
		"it is not said any more":    {csiNode("n", "d", 1), silent, framework.Queue},
		"another one comes":          {csiNode("n", "d", 1), csiNode("n", "d", 1, "e", 1), framework.QueueSkip},
		"one falls, the other rises": {csiNode("n", "d", 2, "e", 1), csiNode("n", "d", 1, "e", 2), framework.Queue},
		"there was none":             {csiNode("n"), csiNode("n", "d", 1), framework.QueueSkip},
	} {
		if got, err := isSchedulableAfterCSINodeChange(logr.Discard(), podOn("", "p", "v0"), c.before,
			c.after); got != c.want ||
			err != nil {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
}
