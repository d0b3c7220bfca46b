package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumebinding"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// planBinder notes what is done with plans.
type planBinder struct {
	lines        []string
	assume, bind error
	left         time.Duration // until the context of the last BindPodVolumes ends
}

func (b *planBinder) note(what string, p *volumebinding.PodVolumes) {
	var all []string
	for _, s := range p.StaticBindings {
		all = append(all, s.Claim.Name+"="+s.Volume.Name)
	}
	for _, c := range p.DynamicProvisions {
		all = append(all, c.Name)
	}
	b.lines = append(b.lines, fmt.Sprintf("%s on %s: %s", what, p.Node, strings.Join(all, " ")))
}

func (b *planBinder) AssumePodVolumes(p *volumebinding.PodVolumes) error {
	b.note("assumed", p)
	return b.assume
}

func (b *planBinder) RevertAssumedPodVolumes(p *volumebinding.PodVolumes) { b.note("reverted", p) }

func (b *planBinder) BindPodVolumes(ctx context.Context, pod *v1.Pod, p *volumebinding.PodVolumes) error {
	b.note("bound for "+pod.Name, p)
	if end, ok := ctx.Deadline(); ok {
		b.left = time.Until(end)
	}
	return b.bind
}

// What is planned for the chosen node is assumed, written before the Pod is bound, and taken back
// when the Pod is not bound; a Pod whose claims are all bound needs none of it.
func TestVolumesArePlannedForTheChosenNode(t *testing.T) {
	waits := newClass("local", noProvisioner, later)
	free := []runtime.Object{waits, newClass("made", "csi.example", later), newClaim("big", "local", "2Gi"),
		newClaim("small", "local", "1Gi"), newClaim("new", "made", "1Gi"), newVolume("v3", "local", "3Gi"),
		newVolume("v2", "local", "2Gi"), newVolume("x", "local", "9Gi", only("zone", "1"))}
	bound := []runtime.Object{waits, newClaim("data", "local", "1Gi", boundTo("pv")),
		newVolume("pv", "local", "1Gi", only("zone", "1"))}
	down := errors.New("down")
	for name, c := range map[string]struct {
		p       *v1.Pod
		objects []runtime.Object
		node    string
		binder  planBinder
		reserve string
		preBind string // "": Skip before it
		lines   string
	}{
		"no claims":     {p: newPod("p"), node: "a", reserve: "Success"},
		"all are bound": {p: newPod("p", mounts("data")), objects: bound, node: "a", reserve: "Success"},
		"not reached": {p: newPod("p", mounts("data")), objects: bound, node: "b",
			reserve: "UnschedulableAndUnresolvable: node(s) didn't match PersistentVolume's node affinity"},
		"no such node": {p: newPod("p", mounts("small")), objects: free, node: "c",
			reserve: `Error: node "c" is not in the snapshot`},
		"the smallest one first, whatever the order": {p: newPod("p", mounts("big", "small")), objects: free, node: "b",
			reserve: "Success", preBind: "Success",
			lines: "assumed on b: small=v2 big=v3; bound for p on b: small=v2 big=v3; reverted on b: small=v2 " +
				"big=v3"},
		"to be made": {p: newPod("p", mounts("new", "small")), objects: free, node: "a", reserve: "Success",
			preBind: "Success", lines: "assumed on a: small=v2 new; bound for p on a: small=v2 new; reverted on a: " +
				"small=v2 new"},
		"not assumed": {p: newPod("p", mounts("small")), objects: free, node: "a", binder: planBinder{assume: down},
			reserve: "Error: down", lines: "assumed on a: small=v2"},
		"not bound": {p: newPod("p", mounts("small")), objects: free, node: "a", binder: planBinder{bind: down},
			reserve: "Success", preBind: "Error: down",
			lines: "assumed on a: small=v2; bound for p on a: small=v2; reverted on a: small=v2"},
	} {
		binder := c.binder
		pl := volumebinding.New(&config.VolumeBindingArgs{BindTimeoutSeconds: new(int64(3600))},
			volumelisters.Of(c.objects...), &binder)
		nodes := []*v1.Node{newNode("a", label("zone", "1")), newNode("b", label("zone", "2"))}
		state := schedulePod(c.p, pl, snapshot.Of(nodes, nil)).State
		if got := statusLine(pl.Reserve(t.Context(), state, c.p, c.node)); got != c.reserve {
			t.Errorf("%s: Reserve gave %s, want %s", name, got, c.reserve)
		}
		preBind := ""
		r, s := pl.PreBindPreFlight(t.Context(), state, c.p, c.node)
		if bind := pl.PreBind(t.Context(), state, c.p, c.node); !s.IsSkip() {
			preBind = statusLine(bind)
			if r == nil || !r.AllowParallel || binder.left < 30*time.Minute || binder.left > time.Hour {
				t.Errorf("%s: %+v, bound within %v, want parallel within an hour", name, r, binder.left)
			}
		} else if bind != nil {
			t.Errorf("%s: skipped, and PreBind gave %s", name, statusLine(bind))
		}
		if preBind != c.preBind {
			t.Errorf("%s: PreBind gave %q, want %q", name, preBind, c.preBind)
		}
		pl.Unreserve(t.Context(), state, c.p, c.node)
		if got := strings.Join(binder.lines, "; "); got != c.lines {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.lines)
		}
	}
	p := newPod("p", mounts("small"))
	pl := volumebinding.New(nil, volumelisters.Of(free...), nil)
	state := schedulePod(p, pl, snapshot.Of([]*v1.Node{newNode("a")}, nil)).State
	if s := pl.Reserve(t.Context(), state, p, "a"); s != nil {
		t.Errorf("without a Binder: Reserve gave %s, want success", statusLine(s))
	}
	pl.Unreserve(t.Context(), state, p, "a")
	without, with := volumebinding.New(nil, nil, nil).Skips(newPod("p"), nil), pl.Skips(p, nil)
	if !without || with {
		t.Errorf("skipped without claims: %t, with a claim: %t, want true, false", without, with)
	}
}

// What cannot be read is an error, and no refusal of a node.
func TestVolumesThatCannotBeRead(t *testing.T) {
	down := errors.New("down")
	waits, data := newClass("local", noProvisioner, later), newClaim("data", "local", "1Gi")
	bound := newClaim("data", "local", "1Gi", boundTo("pv"))
	for name, c := range map[string]struct {
		fail    zoneFailing
		objects []runtime.Object
		want    string
		filter  string
	}{
		"no claim": {want: `UnschedulableAndUnresolvable: persistentvolumeclaim "data" not found`},
		"classes":  {fail: zoneFailing{class: down}, objects: []runtime.Object{data, waits}, want: "Error: down"},
		"volumes": {fail: zoneFailing{volume: down}, objects: []runtime.Object{bound, waits}, want: "Success",
			filter: "Error: down"},
		"nothing is lost": {objects: []runtime.Object{data, waits, newVolume("pv", "local", "1Gi")}, want: "Success",
			filter: "Success"},
	} {
		c.fail.Listers = volumelisters.Of(c.objects...)
		pl, state, p := volumebinding.New(&config.VolumeBindingArgs{Shape: []config.UtilizationShapePoint{
			{Utilization: 0, Score: 1}, {Utilization: 100, Score: 10}}}, c.fail, &planBinder{}),
			schedule.NewCycleState(),
			newPod("p", mounts("data"))
		r, s := pl.PreFilter(t.Context(), state, p, nil)
		if got := statusLine(s); got != c.want || r != nil {
			t.Errorf("%s: got %v, %s, want %s", name, r, got, c.want)
		}
		n := snapshot.NewNodeInfo(newNode("a"))
		if c.filter == "" {
			c.filter = "Success" // of what nothing is known
		}
		if got := statusLine(pl.Filter(t.Context(), state, p, n)); got != c.filter {
			t.Errorf("%s: Filter gave %s, want %s", name, got, c.filter)
		}
		if e := pl.Explain(t.Context(), state, p, n); e.Detail != "" || e.Fix != "" || e.Code != "" {
			t.Errorf("%s: explained as %v, want nothing", name, e)
		}
		want := int64(0)
		if name == "nothing is lost" {
			want = 100
		}
		if got, s := pl.Score(t.Context(), state, p, n); got != want || s != nil {
			t.Errorf("%s: score %d, %s, want %d", name, got, statusLine(s), want)
		}
	}
	if _, s := volumebinding.New(nil, nil, nil).PreFilter(t.Context(), schedule.NewCycleState(),
		newPod("p", mounts("data")), nil); s.Code() != framework.Skip {
		t.Errorf("without listers: got %s, want Skip", statusLine(s))
	}
}

// Of several reasons the first of upstream's order is explained, and all are told.
func TestReasonsOfVolumesComeInUpstreamsOrder(t *testing.T) {
	const affinity, noVolume = "node(s) didn't match PersistentVolume's node affinity",
		"node(s) didn't find available persistent volumes to bind"
	const noSpace, gone = "node(s) did not have enough free storage",
		"node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
	elsewhere := []runtime.Object{newClaim("bound", "local", "1Gi", boundTo("pv")),
		newVolume("pv", "local", "1Gi", only("zone", "2"))}
	lost := []runtime.Object{newClaim("bound", "local", "1Gi", boundTo("gone"))}
	none := []runtime.Object{newClass("local", noProvisioner, later), newClaim("free", "local", "1Gi")}
	full := []runtime.Object{newClass("local", "csi.example", later), driverWithCapacity("csi.example"),
		newClaim("free", "local", "1Gi")}
	selected := []runtime.Object{newClass("local", "csi.example", later),
		newClaim("free", "local", "1Gi", func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "other"}
		})}
	for name, c := range map[string]struct {
		first, second []runtime.Object
		want          string
	}{
		"elsewhere and none":              {elsewhere, none, affinity + ", " + noVolume},
		"elsewhere and full":              {elsewhere, full, affinity + ", " + noSpace},
		"gone and none":                   {lost, none, noVolume + ", " + gone},
		"gone and full":                   {lost, full, noSpace + ", " + gone},
		"gone and made for another node":  {lost, selected, noVolume + ", " + gone},
		"elsewhere, made for another one": {elsewhere, selected, affinity + ", " + noVolume},
	} {
		all := append(append([]runtime.Object{}, c.first...), c.second...)
		r := schedulePod(newPod("p", mounts("free", "bound")), volumebinding.New(nil, volumelisters.Of(all...), nil),
			snapshot.Of([]*v1.Node{newNode("a", label("zone", "1"))}, nil))
		got, _, _ := strings.Cut(statusText(r, "a"), " | ")
		if want := "UnschedulableAndUnresolvable: " + c.want; got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

// A class says where and with how much room a volume can be made.
func TestWhereVolumesCanBeMade(t *testing.T) {
	nodes := []*v1.Node{newNode("a", label("zone", "1"), label("rack", "x")), newNode("b", label("zone", "2"),
		label("rack", "x")),
		newNode("c", label("zone", "3"))}
	topologies := func(terms ...map[string]string) func(*storagev1.StorageClass) {
		return func(c *storagev1.StorageClass) {
			for _, t := range terms {
				term := v1.TopologySelectorTerm{}
				for k, v := range t {
					term.MatchLabelExpressions = append(term.MatchLabelExpressions,
						v1.TopologySelectorLabelRequirement{Key: k, Values: strings.Split(v, " ")})
				}
				c.AllowedTopologies = append(c.AllowedTopologies, term)
			}
		}
	}
	room := func(class, zone, size, most string) *storagev1.CSIStorageCapacity {
		c := capacity(class, zone, "1")
		if c.Capacity = nil; size != "" {
			c.Capacity = new(resource.MustParse(size))
		}
		if most != "" {
			c.MaximumVolumeSize = new(resource.MustParse(most))
		}
		return c
	}
	nowhere := room("made", "1", "9Gi", "")
	nowhere.NodeTopology = nil
	counting := driverWithCapacity("csi.example")
	uncounted := driverWithCapacity("csi.example")
	uncounted.Spec.StorageCapacity = new(false)
	silent := driverWithCapacity("csi.example")
	silent.Spec.StorageCapacity = nil
	for name, c := range map[string]struct {
		provisioner string
		class       func(*storagev1.StorageClass)
		objects     []runtime.Object
		want        string
	}{
		"anywhere":         {"csi.example", topologies(), nil, "a b c"},
		"by nobody":        {"", topologies(), nil, ""},
		"by hand":          {noProvisioner, topologies(), nil, ""},
		"in zones":         {"csi.example", topologies(map[string]string{"zone": "1 3"}), nil, "a c"},
		"in zone and rack": {"csi.example", topologies(map[string]string{"zone": "1 3", "rack": "x"}), nil, "a"},
		"in one of two terms": {"csi.example", topologies(map[string]string{"zone": "2"},
			map[string]string{"zone": "3"}), nil, "b c"},
		"a term that says nothing": {"csi.example", topologies(map[string]string{}), nil, ""},
		"a label that no node has": {"csi.example", topologies(map[string]string{"row": ""}), nil, ""},
		"nobody counts":            {"csi.example", topologies(), []runtime.Object{uncounted}, "a b c"},
		"it does not say whether":  {"csi.example", topologies(), []runtime.Object{silent}, "a b c"},
		"another driver counts": {"csi.example", topologies(), []runtime.Object{driverWithCapacity("other")},
			"a b c"},
		"no room known": {"csi.example", topologies(), []runtime.Object{counting}, ""},
		"as much as is asked for": {"csi.example", topologies(), []runtime.Object{counting, room("made", "1", "1Gi",
			"")}, "a"},
		"a byte less": {"csi.example", topologies(), []runtime.Object{counting, room("made", "1", "1073741823", "")},
			""},
		"of another class": {"csi.example", topologies(), []runtime.Object{counting, room("other", "1", "9Gi", "")},
			""},
		"of no node": {"csi.example", topologies(), []runtime.Object{counting, nowhere}, ""},
		"not in one piece": {"csi.example", topologies(), []runtime.Object{counting, room("made", "1", "9Gi", "500Mi")},
			""},
		"only the largest piece is known": {"csi.example", topologies(), []runtime.Object{counting, room("made", "2",
			"", "1Gi")}, "b"},
		"nothing is known of it": {"csi.example", topologies(), []runtime.Object{counting, room("made", "2", "", "")},
			""},
		"in two places": {"csi.example", topologies(), []runtime.Object{counting, room("made", "2", "9Gi", ""),
			room("made", "3", "2Gi", ""), room("made", "1", "1Gi", "")}, "a b c"},
		"outside its topologies": {"csi.example", topologies(map[string]string{"zone": "1"}),
			[]runtime.Object{counting, room("made", "2", "9Gi", "")}, ""},
	} {
		class := newClass("made", c.provisioner, later)
		c.class(class)
		all := append([]runtime.Object{class, newClaim("data", "made", "1Gi")}, c.objects...)
		r := schedulePod(newPod("p", mounts("data")), volumebinding.New(nil, volumelisters.Of(all...), nil),
			snapshot.Of(nodes, nil))
		if got := fitsOn(r, nodes); got != c.want {
			t.Errorf("%s: fits on %q, want %q", name, got, c.want)
		}
	}
}

// A volume's nodes in words, and a class that an annotation names.
func TestWordsAboutVolumes(t *testing.T) {
	in, exists := v1.NodeSelectorOpIn, v1.NodeSelectorOpExists
	affinity := func(terms ...v1.NodeSelectorTerm) *v1.VolumeNodeAffinity {
		return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: terms}}
	}
	both := term(expression("zone", in, "1"))
	both.MatchFields = named("n").MatchFields
	for want, a := range map[string]*v1.VolumeNodeAffinity{
		"every node":                 nil,
		"zone=1":                     affinity(term(expression("zone", in, "1"))),
		"zone In 1,2":                affinity(term(expression("zone", in, "1", "2"))),
		"disk Exists":                affinity(term(expression("disk", exists))),
		"zone NotIn 1":               affinity(term(expression("zone", v1.NodeSelectorOpNotIn, "1"))),
		"zone=1 and rack=x":          affinity(term(expression("zone", in, "1"), expression("rack", in, "x"))),
		"zone=1, or rack=x":          affinity(term(expression("zone", in, "1")), term(expression("rack", in, "x"))),
		"metadata.name=n":            affinity(named("n")),
		"zone=1 and metadata.name=n": affinity(both),
	} {
		v := newVolume("pv", "c", "1Gi")
		if v.Spec.NodeAffinity = a; volumebinding.NodeAffinityText(v) != want {
			t.Errorf("got %q, want %q", volumebinding.NodeAffinityText(v), want)
		}
	}
	v := newVolume("pv", "c", "1Gi")
	v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{}
	if got := volumebinding.NodeAffinityText(v); got != "every node" {
		t.Errorf("an affinity that requires nothing: got %q, want every node", got)
	}
	annotated := newClaim("data", "", "1Gi", func(c *v1.PersistentVolumeClaim) {
		c.Spec.StorageClassName = nil
		c.Annotations = map[string]string{v1.BetaStorageClassAnnotation: "local"}
	})
	r := schedulePod(newPod("p", mounts("data")), volumebinding.New(nil,
		volumelisters.Of(newClass("local", noProvisioner, later), annotated), nil),
		snapshot.Of([]*v1.Node{newNode("a")}, nil))
	if got, want := statusText(r, "a"),
		"claim ns/data (1Gi of class local) finds no free volume"; !strings.Contains(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestVolumeBindingHints(t *testing.T) {
	migrated := func(plugins string) *storagev1.CSINode {
		n := limit("a", "d", 1)
		n.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: plugins}
		return n
	}
	most := func(size, most string) *storagev1.CSIStorageCapacity {
		c := capacity("c", "1", size)
		c.MaximumVolumeSize = new(resource.MustParse(most))
		return c
	}
	nothing := capacity("c", "1", "1")
	nothing.Capacity = nil
	uncounted := driverWithCapacity("d")
	uncounted.Spec.StorageCapacity = new(false)
	for name, c := range map[string]struct {
		about         framework.EventResource
		before, after any
		want          string
	}{
		"a capacity comes": {framework.CSIStorageCapacity, nil, capacity("c", "1", "1Gi"), "Queue"},
		"it stays": {framework.CSIStorageCapacity, capacity("c", "1", "1Gi"), capacity("c", "1", "1Gi"),
			"QueueSkip"},
		"a byte more": {framework.CSIStorageCapacity, capacity("c", "1", "1"), capacity("c", "1", "2"), "Queue"},
		"more, in pieces no larger": {framework.CSIStorageCapacity, most("1Gi", "1Gi"), most("9Gi", "1Gi"),
			"QueueSkip"},
		"in larger pieces": {framework.CSIStorageCapacity, most("9Gi", "1Gi"), most("9Gi", "2Gi"),
			"Queue"},
		"it is known": {framework.CSIStorageCapacity, nothing, capacity("c", "1", "1Gi"), "Queue"},
		"it is known no more": {framework.CSIStorageCapacity, capacity("c", "1", "1Gi"), nothing,
			"QueueSkip"},
		"it is not known, as before":    {framework.CSIStorageCapacity, nothing, nothing, "QueueSkip"},
		"a driver begins to count":      {framework.CSIDriver, uncounted, driverWithCapacity("d"), "QueueSkip"},
		"a driver stops counting":       {framework.CSIDriver, driverWithCapacity("d"), uncounted, "Queue"},
		"a driver still does not count": {framework.CSIDriver, uncounted, uncounted, "QueueSkip"},
		"a CSINode comes":               {framework.CSINode, nil, migrated("x"), "Queue"},
		"the same plugins":              {framework.CSINode, migrated("x"), migrated("x"), "QueueSkip"},
		"another plugin":                {framework.CSINode, migrated("x"), migrated("x,y"), "Queue"},
		"any volume":                    {framework.PersistentVolume, nil, newVolume("v", "c", "1Gi"), "Queue"},
	} {
		if got := hint(t, volumebinding.New(nil, nil, nil), c.about, framework.Add|framework.Update,
			newPod("p", mounts("data")), [2]any{c.before, c.after}); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
