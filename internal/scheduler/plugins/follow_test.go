package plugins_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/interpodaffinity"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodechanges"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/noderesources"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/podtopologyspread"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumerestrictions"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/expect"
)

// company makes a Pod that others may mind, and that minds others.
func (r random) company(name, node string) *v1.Pod {
	p := newPod(name, onNode(node), withPodLabels("app="+r.text("web", "db")))
	if r.oneIn(5) {
		p.Namespace = "ns2"
	}
	term := func() v1.PodAffinityTerm {
		return v1.PodAffinityTerm{TopologyKey: r.text("zone", v1.LabelHostname),
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": r.text("web", "db")}}}
	}
	if r.oneIn(2) {
		p.Spec.Affinity = &v1.Affinity{}
		if r.oneIn(2) {
			p.Spec.Affinity.PodAffinity = &v1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term(), term()}[:1+r.IntN(2)]}
		}
		if r.oneIn(2) {
			p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term(), term()}[:1+r.IntN(2)]}
		}
	}
	for _, key := range r.keys("zone", v1.LabelHostname) {
		spread(int32(1+r.IntN(2)), key, v1.DoNotSchedule, func(c *v1.TopologySpreadConstraint) {
			if r.oneIn(4) {
				c.MinDomains = new(int32(1 + r.IntN(4)))
			}
		})(p)
	}
	if r.oneIn(2) {
		mounts(r.keys("alone", "other", "shared")...)(p)
	}
	return p
}

// A Pod that is added in thought counts as if it had been there, and one that is removed as if it
// had not, in any order.
//
// row: FIL-20
func TestPreFilterExtensionsFollowPods(t *testing.T) {
	r := random{rand.New(rand.NewPCG(3, 4))}
	once := func(c *v1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	listers := volumelisters.Of(newClaim("alone", "c", "1Gi", once), newClaim("other", "c", "1Gi", once),
		newClaim("shared", "c", "1Gi"))
	all := []framework.PreFilterPlugin{podtopologyspread.New(nil, nil), interpodaffinity.New(nil, nil),
		volumerestrictions.New(listers)}
	changed := map[string]int{}
	for range 400 {
		var nodes []*v1.Node
		for i := range 1 + r.IntN(4) {
			nodes = append(nodes, newNode(fmt.Sprint("n", i)))
			if !r.oneIn(5) {
				label("zone", r.text("1", "2"))(nodes[i])
			}
		}
		var before, after []*v1.Pod
		kept := map[string]bool{}
		for i := range r.IntN(7) {
			q := r.company(fmt.Sprint("q", i), nodes[r.IntN(len(nodes))].Name)
			was, is := !r.oneIn(3), !r.oneIn(3)
			if kept[q.Name] = was && is; was {
				before = append(before, q)
			}
			if is {
				after = append(after, q)
			}
		}
		p := r.company("p", "")
		p.Namespace = "ns"
		for _, pl := range all {
			at := snapshot.Of(nodes, before)
			state, first := filtered(t, pl, p, at)
			if state == nil { // it has nothing to say, whoever is there
				continue
			}
			ext := pl.PreFilterExtensions()
			change := func(list []*v1.Pod, do func(context.Context, framework.CycleState, *v1.Pod, framework.PodInfo,
				framework.NodeInfo) *framework.Status) {
				for _, q := range list {
					if !kept[q.Name] {
						if s := do(t.Context(), state, p, podInfo(q), at.Node(q.Spec.NodeName)); s != nil {
							t.Errorf("%s: got %v, want nil", pl.Name(), s)
						}
					}
				}
			}
			if volumesCountTwice := pl.Name() == volumerestrictions.Name; volumesCountTwice &&
				sharesOnce(before, after, p) {
				continue // uses are counted by claim at first and by Pod later, as upstream does
			}
			change(before, ext.RemovePod)
			change(after, ext.AddPod)
			want := map[string]string{}
			if wantState, list := filtered(t, pl, p, snapshot.Of(nodes, after)); wantState != nil {
				want = list
			}
			for _, n := range nodes {
				got := statusLine(pl.(framework.FilterPlugin).Filter(t.Context(), state, p, at.Node(n.Name)))
				if w := want[n.Name]; got != w && w != "" {
					t.Fatalf("%s on %s: got %s, want %s", pl.Name(), n.Name, got, w)
				}
				if got != first[n.Name] {
					changed[pl.Name()]++
				}
			}
		}
	}
	for _, pl := range all {
		if changed[pl.Name()] < 10 {
			t.Errorf("%s: %d verdicts changed: too few to show anything", pl.Name(), changed[pl.Name()])
		}
	}
}

// sharesOnce tells whether a claim for one Pod has more than one other user.
func sharesOnce(before, after []*v1.Pod, p *v1.Pod) bool {
	for _, list := range [][]*v1.Pod{before, after} {
		users := map[string]int{}
		for _, q := range list {
			for _, v := range q.Spec.Volumes {
				if users[v.Name]++; users[v.Name] > 1 {
					return true
				}
			}
		}
	}
	return false
}

// filtered are the statuses of a plugin by node; no state where it skips the Pod.
func filtered(t *testing.T, pl framework.PreFilterPlugin, p *v1.Pod, snap *snapshot.Snapshot) (framework.CycleState,
	map[string]string) {
	t.Helper()
	state, out := emptyState(p, snap, pl, false), map[string]string{}
	if _, s := pl.PreFilter(t.Context(), state, p, snap.All()); s.IsSkip() {
		return nil, out
	} else if s != nil {
		t.Fatalf("%s: PreFilter: %v, want nil", pl.Name(), s)
	}
	for i := range snap.Len() {
		out[snap.At(i).Node().Name] = statusLine(pl.(framework.FilterPlugin).Filter(t.Context(), state, p, snap.At(i)))
	}
	return state, out
}

// Who is asked about a Pod that PreFilter has not seen says so.
func TestWithoutPreFilter(t *testing.T) {
	p, n := newPod("p"), snapshot.NewNodeInfo(newNode("n"))
	for _, pl := range []framework.Plugin{podtopologyspread.New(nil, nil), interpodaffinity.New(nil, nil)} {
		key := "PreFilter" + pl.Name()
		for foreignState, want := range map[bool]string{
			false: fmt.Sprintf(`Error: reading %q from the cycle state: not found`, key),
			true:  fmt.Sprintf(`Error: %q in the cycle state is a plugins_test.foreign`, key)} {
			state := emptyState(p, snapshot.Of(nil, nil), pl, foreignState)
			ext := pl.(framework.PreFilterPlugin).PreFilterExtensions()
			for what, s := range map[string]*framework.Status{"Filter": pl.(framework.FilterPlugin).Filter(t.Context(),
				state, p, n),
				"AddPod": ext.AddPod(t.Context(), state, p, podInfo(p), n),
				"RemovePod": ext.RemovePod(t.Context(), state, p,
					podInfo(p), n)} {
				if got := statusLine(s); got != want {
					t.Errorf("%s of %s: got %s, want %s", what, pl.Name(), got, want)
				}
			}
			if e := pl.(schedule.Explainer).Explain(t.Context(), state, p, n); e.Detail+e.Fix != "" {
				t.Errorf("%s explains %+v", pl.Name(), e)
			}
			if got, s := pl.(framework.ScorePlugin).Score(t.Context(), state, p, n); got != 0 || s != nil {
				t.Errorf("%s scores %d, %v, want 0", pl.Name(), got, s)
			}
		}
	}
	scores := framework.NodeScoreList{{Name: "n", Score: 7}}
	state := emptyState(p, snapshot.Of(nil, nil), podtopologyspread.New(nil, nil), true)
	podtopologyspread.New(nil, nil).NormalizeScore(t.Context(), state, p, scores)
	if scores[0].Score != 7 {
		t.Errorf("normalised without PreScore: got %d, want 7", scores[0].Score)
	}
}

// Terms that cannot be read are said of the Pod, at every point.
func TestTermsThatCannotBeRead(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Never"}}}
	peers := newPod("p", func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				{TopologyKey: "zone", LabelSelector: bad}}}}
	})
	const unknown = `"Never" is not a valid label selector operator`
	pl := interpodaffinity.New(nil, nil)
	_, pre := pl.PreFilter(t.Context(), schedule.NewCycleState(), peers, nil)
	rate := pl.PreScore(t.Context(), schedule.NewCycleState(), peers, nil)
	for what, got := range map[string]string{"UnschedulableAndUnresolvable: parsing pod: ": statusLine(pre),
		"Error: parsing pod: ": statusLine(rate)} {
		if !strings.HasPrefix(got, what) || !strings.Contains(got, unknown) {
			t.Errorf("got %s, want %s…%s", got, what, unknown)
		}
	}
	for _, action := range []framework.EventResource{framework.Pod, framework.Node} {
		if got := hint(t, pl, action, framework.Add, peers, [2]any{nil, newNode("n")}); !strings.HasPrefix(got,
			"Queue: ") ||
			!strings.Contains(got, unknown) {
			t.Errorf("%s: got %s", action, got)
		}
	}
	for _, when := range []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway} {
		p := newPod("p", spread(1, "zone", when, func(c *v1.TopologySpreadConstraint) { c.LabelSelector = bad }))
		pl := podtopologyspread.New(nil, nil)
		_, pre := pl.PreFilter(t.Context(), schedule.NewCycleState(), p, nil)
		rate := pl.PreScore(t.Context(), emptyState(p, snapshot.Of(nil, nil), pl, false), p, nil)
		said, silent := pre, rate
		if when == v1.ScheduleAnyway {
			said, silent = rate, pre
		}
		if got := statusLine(said); !strings.HasPrefix(got, "Error: ") || !strings.Contains(got, unknown) ||
			!silent.IsSkip() {
			t.Errorf("%s: got %s and %s", when, got, statusLine(silent))
		}
		for _, about := range []framework.EventResource{framework.Pod, framework.Node} {
			got := hint(t, pl, about, framework.Add, p, [2]any{nil, newNode("n")})
			if when == v1.DoNotSchedule && (!strings.HasPrefix(got, "Queue: ") || !strings.Contains(got, unknown)) {
				t.Errorf("%s: got %s", about, got)
			}
		}
	}
}

func TestSpreadAndPeersHints(t *testing.T) {
	web, db := withPodLabels("app=web"), withPodLabels("app=db")
	p := newPod("p", spread(1, "zone", v1.DoNotSchedule), spread(1, "rack", v1.DoNotSchedule))
	zoned := newNode("n", label("zone", "1"), label("rack", "1"))
	for name, c := range map[string]struct {
		about         framework.EventResource
		before, after any
		want          string
	}{
		"a matching Pod comes":        {framework.Pod, nil, newPod("q", web), "Queue"},
		"it goes":                     {framework.Pod, newPod("q", web), nil, "Queue"},
		"one that does not":           {framework.Pod, nil, newPod("q", db), "QueueSkip"},
		"its labels match now":        {framework.Pod, newPod("q", db), newPod("q", web), "Queue"},
		"they did":                    {framework.Pod, newPod("q", web), newPod("q", db), "Queue"},
		"in another namespace":        {framework.Pod, nil, newPod("q", web, inNamespace("ns2")), "QueueSkip"},
		"it moved from another":       {framework.Pod, newPod("q", web, inNamespace("ns2")), newPod("q", web), "Queue"},
		"the Pod itself changes":      {framework.Pod, newPod("p", db), newPod("p", db), "Queue"},
		"a node with both keys":       {framework.Node, nil, zoned, "Queue"},
		"it goes ":                    {framework.Node, zoned, nil, "Queue"},
		"with one":                    {framework.Node, nil, newNode("n", label("zone", "1")), "QueueSkip"},
		"it gets the other":           {framework.Node, newNode("n", label("zone", "1")), zoned, "Queue"},
		"it loses it":                 {framework.Node, zoned, newNode("n", label("zone", "1")), "Queue"},
		"with neither, before, after": {framework.Node, newNode("n"), newNode("n"), "QueueSkip"},
	} {
		if got := hint(t, podtopologyspread.New(nil, nil), c.about, framework.Add, p,
			[2]any{c.before, c.after}); got != c.want {
			t.Errorf("spread, %s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestFitArguments(t *testing.T) {
	for want, s := range map[string]*config.ScoringStrategy{
		`scoringStrategy.type "Odd" is not one of LeastAllocated, MostAllocated, ` +
			`RequestedToCapacityRatio`: {Type: "Odd"},
		"scoringStrategy.requestedToCapacityRatio.shape: at least one point must be specified": {
			Type: config.RequestedToCapacityRatio, RequestedToCapacityRatio: &config.RequestedToCapacityRatioParam{}}} {
		if pl, err := noderesources.NewFit(&config.NodeResourcesFitArgs{ScoringStrategy: s}); pl != nil || err == nil ||
			err.Error() != want {
			t.Errorf("got %v, %v, want %s", pl, err, want)
		}
	}
	none := &config.ScoringStrategy{Type: config.RequestedToCapacityRatio}
	if _, err := noderesources.NewFit(&config.NodeResourcesFitArgs{ScoringStrategy: none}); err == nil {
		t.Error("no shape: got no error")
	}
	if _, err := noderesources.NewFit(&config.NodeResourcesFitArgs{}); err == nil ||
		err.Error() != "scoringStrategy is missing" {
		t.Errorf("no strategy: got %v", err)
	}
	score := noderesources.RequestedToCapacityRatio([]config.UtilizationShapePoint{{Utilization: 20, Score: 1},
		{Utilization: 40, Score: 9}, {Utilization: 99, Score: 4}})
	for _, c := range [][3]int64{{0, 100, 10}, {20, 100, 10}, {21, 100, 14}, {30, 100, 50}, {40, 100, 90},
		{41, 100, 90},
		{99, 100, 40}, {100, 100, 40}, {101, 100, 40}, {0, 0, 40}, {5, 0, 40}, {399, 1000, 86}} {
		if got := score(c[0], c[1]); got != c[2] {
			t.Errorf("%d of %d: got %d, want %d", c[0], c[1], got, c[2])
		}
	}
	steep := noderesources.RequestedToCapacityRatio([]config.UtilizationShapePoint{{Utilization: 99, Score: 0},
		{Utilization: 100, Score: 10}, {Utilization: 101, Score: 0}})
	if got := steep(5, 4); got != 100 {
		t.Errorf("more than there is: got %d, want 100", got)
	}
	for _, c := range []struct {
		name v1.ResourceName
		n    int64
		want string
	}{{"cpu", 1500, "1500m"}, {"memory", 1 << 20, "1Mi"}, {"ephemeral-storage", 1 << 20, "1Mi"},
		{"hugepages-2Mi", 1 << 21, "2Mi"}, {"x.org/a", 2000, "2k"}} {
		if got := noderesources.Quantity(c.name, c.n); got != c.want {
			t.Errorf("%s %d: got %s, want %s", c.name, c.n, got, c.want)
		}
	}
}

// What a device class serves is left to DynamicResources where the node does not offer it itself.
func TestFitLeavesServedResourcesAlone(t *testing.T) {
	served := func(name v1.ResourceName) bool { return name == "x.org/served" }
	for name, c := range map[string]struct {
		asks, has string
		want      string
		shared    bool
	}{
		"served, offered by none": {"x.org/served=1", "x.org/other=0", "Success", false},
		"served, and too few": {"x.org/served=2", "x.org/served=1",
			"UnschedulableAndUnresolvable: Insufficient x.org/served", false},
		"not served": {"x.org/plain=1", "x.org/other=0",
			"UnschedulableAndUnresolvable: Insufficient x.org/plain", true},
		"none of it is asked for":  {"x.org/served=0", "x.org/other=0", "Success", true},
		"a common resource is not": {"cpu=100", "cpu=0", "UnschedulableAndUnresolvable: Insufficient cpu", true},
	} {
		pl := expect.Value(noderesources.NewFit(fitArgs(nil)))
		pl.SetServedByDevices(served)
		p, n := newPod("p", requests(c.asks)), newNode("n", allocatable(c.has))
		if got := statusLine(pl.Filter(t.Context(), schedule.NewCycleState(), p,
			snapshot.NewNodeInfo(n))); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if _, shared := pl.AppendShape(nil, p); shared != c.shared {
			t.Errorf("%s: shared by Pods of its shape: %t, want %t", name, shared, c.shared)
		}
	}
}

func TestFitExplainsEveryShortage(t *testing.T) {
	pl := expect.Value(noderesources.NewFit(fitArgs(nil)))
	n := newNode("n", allocatable("pods=1", "cpu=4", "memory=8Gi", "hugepages-2Mi=4Mi"))
	p := newPod("p", requests("cpu=2", "memory=9Gi", "hugepages-2Mi=3Mi", "x.org/a=1"))
	info := snapshot.NewNodeInfo(n, podInfo(newPod("q", requests("cpu=3", "hugepages-2Mi=2Mi"))))
	e := pl.Explain(t.Context(), schedule.NewCycleState(), p, info)
	var short []string
	for _, s := range e.Short {
		short = append(short, fmt.Sprint(s.Resource, " ", s.Requested, " ", s.Used, " ", s.Available))
	}
	got := fmt.Sprint(e.Code, "\n", e.Detail, "\n", e.Fix, "\n", strings.Join(short, "; "))
	want := strings.Join([]string{"NoSuchResource",
		"1 of 1 Pods already there; asks cpu 2, 1 left of 4; asks memory 9Gi, the whole node has 8Gi; asks " +
			"hugepages-2Mi 3Mi, 2Mi left of 4Mi; asks x.org/a 1, the node offers none",
		"remove a Pod from the node, add a node, or raise the kubelet's maxPods; request 1 cpu less, free as much, " +
			"or add a node; request at most 8Gi memory, or add a larger node; request 1Mi hugepages-2Mi less, " +
			"free as much, or add a node; add a node that offers x.org/a",
		"pods 1 1 1; cpu 2000 3000 4000; memory 9663676416 0 8589934592; hugepages-2Mi 3145728 2097152 4194304; " +
			"x.org/a 1 0 0"}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	only := pl.Explain(t.Context(), schedule.NewCycleState(), newPod("p"), info)
	if string(only.Code) != "TooManyPods" {
		t.Errorf("Pods alone: got %s, want TooManyPods", only.Code)
	}
	if e := pl.Explain(t.Context(), schedule.NewCycleState(), newPod("p", requests("cpu=5")), snapshot.NewNodeInfo(
		newNode("n", allocatable("cpu=4")))); string(e.Code) != "NoRoom" {
		t.Errorf("CPU alone: got %s, want NoRoom", e.Code)
	}
}

// A log that is full forgets its older half and says so, and nothing else.
func TestNodeChangesForgetTheOlderHalf(t *testing.T) {
	const most = 1 << 14
	log := &nodechanges.Log{}
	for i := range most {
		log.Note(fmt.Sprint(i))
	}
	if nodes, now, known := log.Since(0); len(nodes) != most || now != most || !known {
		t.Errorf("full: got %d nodes, %d, %t", len(nodes), now, known)
	}
	log.Note("last")
	const forgotten = (most + 1) / 2
	if nodes, now, known := log.Since(forgotten - 1); nodes != nil || now != most+1 || known {
		t.Errorf("what was forgotten: got %d nodes, %d, %t", len(nodes), now, known)
	}
	nodes, now, known := log.Since(forgotten)
	if len(nodes) != most+1-forgotten || nodes[0] != fmt.Sprint(forgotten) || nodes[len(nodes)-1] != "last" ||
		now != most+1 || !known {
		t.Errorf("what was not: got %d nodes from %s on, %d, %t", len(nodes), nodes[0], now, known)
	}
	if nodes, _, known := log.Since(most); len(nodes) != 1 || nodes[0] != "last" || !known {
		t.Errorf("the last: got %q, %t", nodes, known)
	}
}
