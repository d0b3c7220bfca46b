package schedule_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/podtopologyspread"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// randomCluster is a cluster that changes at random, scheduled with and without the cache.
type randomCluster struct {
	*rapid.T
	cache           *snapshot.Cache
	pods            []*v1.Pod
	nominator       *queue.Nominator
	withNominations bool // caches learn which nominations changed
	podsMade        int
	sample          schedule.Sample
}

func newRandomCluster(r *rapid.T) *randomCluster {
	return &randomCluster{T: r, cache: snapshot.NewCache(), nominator: queue.NewNominator(),
		withNominations: rapid.IntRange(1, 4).Draw(r, "told?") > 1}
}

func (t *randomCluster) chance(what string, percent int) bool {
	return rapid.IntRange(1, 100).Draw(t.T, what) <= percent
}

func (t *randomCluster) oneOf(what string, of ...string) string {
	return rapid.SampledFrom(of).Draw(t.T, what)
}

func (t *randomCluster) node(name string) *v1.Node {
	n := node(name, t.oneOf("cpu", "1", "2", "4"), t.oneOf("memory", "1Gi", "2Gi", "8Gi"),
		limit(rapid.IntRange(1, 6).Draw(t.T, "limit")))
	if t.chance("zone?", 80) {
		n.Labels[v1.LabelTopologyZone] = t.oneOf("zone", "a", "b", "c")
	}
	if t.chance("disk?", 50) {
		n.Labels["disk"] = t.oneOf("disk", "ssd", "hdd", "7")
	}
	if t.chance("shared host name?", 15) {
		n.Labels[v1.LabelHostname] = t.oneOf("host", "h", "", "n1")
	}
	n.Spec.Unschedulable = t.chance("cordon?", 10)
	for range rapid.IntRange(0, 2).Draw(t.T, "taints") {
		n.Spec.Taints = append(n.Spec.Taints,
			v1.Taint{Key: t.oneOf("taint", "x", "y"), Value: t.oneOf("taint value", "1", "2"),
				Effect: v1.TaintEffect(t.oneOf("effect", "NoSchedule", "PreferNoSchedule", "PreferNoSchedule",
					"NoExecute"))})
	}
	if t.chance("gpus?", 30) {
		n.Status.Allocatable["example.com/gpu"] = *quantity(rapid.IntRange(1, 4).Draw(t.T, "gpus"))
	}
	if t.chance("images?", 30) {
		n.Status.Images = []v1.ContainerImage{{Names: []string{"i:latest"},
			SizeBytes: int64(rapid.IntRange(1, 900).Draw(t.T, "size")) << 20}}
	}
	return n
}

func (t *randomCluster) term(what string) v1.NodeSelectorTerm {
	r := v1.NodeSelectorRequirement{Key: t.oneOf(what+" key", "disk", v1.LabelTopologyZone, "none"),
		Operator: v1.NodeSelectorOperator(t.oneOf(what, "In", "NotIn", "Exists", "DoesNotExist", "Gt"))}
	switch r.Operator {
	case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
		r.Values = []string{t.oneOf("value", "ssd", "a", "b"), "hdd"}
	case v1.NodeSelectorOpGt:
		r.Values = []string{"5"}
	}
	return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{r}}
}

func (t *randomCluster) pod() *v1.Pod {
	t.podsMade++
	p := pod(fmt.Sprintf("p%d", t.podsMade), t.oneOf("cpu", "", "100m", "500m", "3"),
		t.oneOf("memory", "", "100Mi", "1Gi"))
	p.Labels = map[string]string{"app": t.oneOf("app", "web", "db")}
	if t.chance("gpu?", 15) {
		p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = *quantity(1)
	}
	if t.chance("port?", 15) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: v1.ProtocolTCP}}
	}
	if t.chance("tolerates?", 40) {
		p.Spec.Tolerations = []v1.Toleration{{Key: t.oneOf("key", "x", "y"), Operator: v1.TolerationOpExists}}
	}
	if t.chance("selector?", 15) {
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	}
	priority := int32(rapid.IntRange(0, 2).Draw(t.T, "priority"))
	p.Spec.Priority = &priority
	t.affinity(p)
	t.spread(p)
	return p
}

func (t *randomCluster) affinity(p *v1.Pod) {
	if !t.chance("affinity?", 50) {
		return
	}
	a := &v1.Affinity{}
	p.Spec.Affinity = a
	other := v1.PodAffinityTerm{TopologyKey: t.oneOf("key", v1.LabelHostname, v1.LabelTopologyZone),
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": t.oneOf("other", "web", "db")}}}
	switch t.oneOf("which", "required", "required", "preferred", "named", "near", "apart", "rather near",
		"rather apart") {
	case "required":
		a.NodeAffinity = &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{t.term("one"), t.term("or")}}}
	case "preferred":
		a.NodeAffinity = &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{
			{Weight: 30, Preference: t.term("rather")}, {Weight: 7, Preference: t.term("or rather")}}}
	case "named":
		a.NodeAffinity = &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{
				{MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn,
					Values: []string{"n1"}}}}}}}
	case "near":
		a.PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{other}}
	case "apart":
		a.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			other}}
	case "rather near":
		a.PodAffinity = &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
			{Weight: 9, PodAffinityTerm: other}}}
	case "rather apart":
		a.PodAntiAffinity = &v1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
				{Weight: 9, PodAffinityTerm: other}}}
	}
}

func (t *randomCluster) spread(p *v1.Pod) {
	if !t.chance("spread?", 25) {
		return
	}
	p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
		{MaxSkew: int32(rapid.IntRange(1, 2).Draw(t.T, "skew")), TopologyKey: t.oneOf("over", v1.LabelHostname,
			v1.LabelTopologyZone),
			WhenUnsatisfiable: v1.UnsatisfiableConstraintAction(t.oneOf("else", "DoNotSchedule", "ScheduleAnyway")),
			LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}}}}
	if t.chance("two?", 50) {
		second := p.Spec.TopologySpreadConstraints[0]
		second.MaxSkew, second.TopologyKey = 3, t.oneOf("and over", v1.LabelHostname, v1.LabelTopologyZone, "disk")
		second.WhenUnsatisfiable = v1.UnsatisfiableConstraintAction(t.oneOf("or else", "DoNotSchedule",
			"ScheduleAnyway"))
		second.NodeTaintsPolicy = new(v1.NodeInclusionPolicy(t.oneOf("taints", "Honor", "Ignore")))
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, second)
	}
}

func (t *randomCluster) change() {
	switch t.oneOf("change", "node", "node", "leave", "node gone", "promise", "promise", "keep") {
	case "node":
		name := fmt.Sprintf("n%d", rapid.IntRange(0, 12).Draw(t.T, "node"))
		n := t.node(name)
		t.cache.SetNode(n)
	case "leave":
		if len(t.pods) > 0 {
			i := rapid.IntRange(0, len(t.pods)-1).Draw(t.T, "pod")
			t.cache.RemovePod(t.pods[i].UID)
			t.pods = slices.Delete(t.pods, i, i+1)
		}
	case "node gone":
		if t.chance("really?", 30) {
			t.cache.RemoveNode(fmt.Sprintf("n%d", rapid.IntRange(0, 12).Draw(t.T, "node")))
		}
	case "promise":
		info, err := snapshot.NewPodInfo(t.pod())
		if err != nil {
			t.Fatal(err)
		}
		t.nominator.AddNominatedPod(info, fmt.Sprintf("n%d", rapid.IntRange(0, 12).Draw(t.T, "node")))
	case "keep":
		for _, node := range t.nominator.NominatedNodes() {
			if t.chance("all?", 50) {
				for _, p := range t.nominator.NominatedPodsForNode(node) {
					t.nominator.DeleteNominatedPodIfExists(p.GetPod().UID)
				}
			}
		}
	}
}

func (t *randomCluster) input(p *v1.Pod, j *schedule.PluginSet, s *snapshot.Snapshot, pick int) schedule.Input {
	in := schedule.Input{Sample: t.sample, Pod: p, Snapshot: s, Plugins: j,
		PickTie: func(n int) int { return pick % n }}
	if names := t.nominator.NominatedNodes(); names != nil {
		in.NominatedPodsForNode, in.NominatedNodes = t.nominator.NominatedPodsForNode, names
		if t.withNominations {
			in.Nominations = t.nominator
		}
	}
	return in
}

// TestCachedResultsEqualUncached: through any history, a cycle from columns and cached statuses
// equals the one that asks every plugin about every node: winner, runner-up, ties, every refusal
// with its numbers, every score. No node is ever given more than it has.
//
// row: FIL-02, FIL-06, FIL-09, FIL-13, FIL-19, SCO-04, SCO-05, SCO-08, SCO-10
func TestCachedResultsEqualUncached(t *testing.T) {
	rounds := 10 // of 100 clusters
	if os.Getenv("GANTRY_LONG") != "" {
		rounds = 100
	}
	for range rounds {
		checkRandomCluster(t, defaultPlugins(t))
	}
}

// TestCachedResultsEqualUncachedWithDefaultConstraints: the same where Pods belong to something
// that selects them, so that the system's constraints score them.
func TestCachedResultsEqualUncachedWithDefaultConstraints(t *testing.T) {
	pluginSet := defaultPlugins(t)
	spread := podtopologyspread.New(nil, func(p *v1.Pod) apilabels.Selector {
		return apilabels.SelectorFromSet(apilabels.Set{"app": p.Labels["app"]})
	})
	for _, replace := range []func(){
		func() { addPlugin(pluginSet.PreFilter, framework.PreFilterPlugin(spread)) },
		func() { addPlugin(pluginSet.Filter, framework.FilterPlugin(spread)) },
		func() { addPlugin(pluginSet.PreScore, framework.PreScorePlugin(spread)) },
	} {
		replace()
	}
	for i, s := range pluginSet.Score {
		if s.Name() == spread.Name() {
			pluginSet.Score[i].ScorePlugin = spread
		}
	}
	for range 5 {
		checkRandomCluster(t, pluginSet)
	}
}

func addPlugin[P framework.Plugin](all []P, pl P) {
	for i := range all {
		if all[i].Name() == pl.Name() {
			all[i] = pl
		}
	}
}

func checkRandomCluster(t *testing.T, pluginSet *schedule.PluginSet) {
	var known, grouped int64
	rapid.Check(t, func(r *rapid.T) {
		c := newRandomCluster(r)
		if c.chance("sampled?", 20) {
			c.sample = schedule.Sample{Percent: 50, AtLeast: 2, StartsAt: rapid.IntRange(0, 20).Draw(r, "start")}
		}
		for i := range rapid.IntRange(0, 10).Draw(r, "nodes") {
			n := c.node(fmt.Sprintf("n%d", i))
			c.cache.SetNode(n)
		}
		memory, buffers := &schedule.EquivalenceCache{}, &schedule.Buffers{}
		var again *v1.Pod
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			if c.chance("change?", 50) {
				c.change()
			}
			p := c.pod()
			if again != nil && c.chance("again?", 60) {
				p = again.DeepCopy()
				p.Name = fmt.Sprintf("again%d", c.podsMade)
				p.UID = types.UID(p.Name)
			}
			again = p
			if c.chance("is it nominated?", 15) {
				info, err := snapshot.NewPodInfo(p)
				if err != nil {
					r.Fatal(err)
				}
				c.nominator.AddNominatedPod(info, fmt.Sprintf("n%d", rapid.IntRange(0, 12).Draw(r, "its node")))
			}
			s, pick := c.cache.UpdateSnapshot(), rapid.IntRange(0, 9).Draw(r, "pick")
			plain := schedule.SchedulePod(t.Context(), c.input(p, pluginSet, s, pick))
			in := c.input(p, pluginSet, s, pick)
			in.Cache, in.Buffers = memory, buffers
			quick := schedule.SchedulePod(t.Context(), in)
			for _, d := range schedule.Differences(plain, quick) {
				r.Errorf("Pod %+v: %s", p.Spec, d)
			}
			for _, n := range s.All() {
				name := n.Node().Name
				if a, b := plain.NodeToStatus().Get(name), quick.NodeToStatus().Get(name); a.Code() != b.Code() ||
					a.Message() != b.Message() || a.Plugin() != b.Plugin() {
					r.Errorf("status of %s: %v, other %v", name, a, b)
				}
			}
			if r.Failed() {
				return
			}
			if quick.Scheduled() {
				c.nominator.DeleteNominatedPodIfExists(p.UID)
				if err := c.cache.AssumePod(p, quick.SuggestedHost); err != nil {
					r.Fatal(err)
				}
				c.pods = append(c.pods, p)
				used := c.cache.UpdateSnapshot().Node(quick.SuggestedHost)
				if called := p.Spec.Containers[0].Resources.Requests.Cpu(); !called.IsZero() &&
					used.GetRequested().GetMilliCPU() > used.GetAllocatable().GetMilliCPU() {
					r.Fatalf("%s is given more than it has", used)
				}
			}
		}
		known += memory.Counts().Hits
		grouped += memory.Counts().Hits + memory.Counts().Misses - memory.Counts().Bypassed -
			memory.Counts().RowsFiltered
	})
	if known == 0 || grouped <= 0 {
		t.Errorf("%d shapes were known, %d results by node groups: the cache is not tested", known, grouped)
	}
}

// TestPodsWithAffinityAreEvaluatedByNodeGroup: affinity to Pods and topology spread never have
// every node asked about, while Pods come and go, nodes fill up and keys appear.
func TestPodsWithAffinityAreEvaluatedByNodeGroup(t *testing.T) {
	w := snapshot.NewCache()
	for i := range 200 {
		w.SetNode(node(fmt.Sprintf("n%d", i), "1", "8Gi", zone(fmt.Sprintf("z%d", i%3))))
	}
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	host, region := v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: web},
		v1.PodAffinityTerm{TopologyKey: v1.LabelTopologyZone, LabelSelector: web}
	over := func(key string, action v1.UnsatisfiableConstraintAction) func(*v1.PodSpec) {
		return func(s *v1.PodSpec) {
			s.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: key,
				WhenUnsatisfiable: action, LabelSelector: web}}
		}
	}
	affine := func(a v1.Affinity) func(*v1.PodSpec) { return func(s *v1.PodSpec) { s.Affinity = &a } }
	rather := []v1.WeightedPodAffinityTerm{{Weight: 5, PodAffinityTerm: host}, {Weight: 1, PodAffinityTerm: region}}
	shapes := []func(*v1.PodSpec){
		over(v1.LabelTopologyZone, v1.DoNotSchedule), over(v1.LabelTopologyZone, v1.ScheduleAnyway),
		over(v1.LabelHostname, v1.DoNotSchedule), over(v1.LabelHostname, v1.ScheduleAnyway),
		affine(v1.Affinity{
			PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				region}}}),
		affine(v1.Affinity{
			PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				host}}}),
		affine(v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: rather}}),
		affine(v1.Affinity{
			PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: rather}}),
	}
	pluginSet, memory, buffers := defaultPlugins(t), &schedule.EquivalenceCache{}, &schedule.Buffers{}
	var last *v1.Pod
	for i := range 800 {
		p := pod(fmt.Sprintf("p%d", i), "300m", "100Mi")
		p.Labels = map[string]string{"app": "web"}
		shapes[i%len(shapes)](&p.Spec)
		in := schedule.Input{Pod: p, Snapshot: w.UpdateSnapshot(), Plugins: pluginSet}
		plain := schedule.SchedulePod(t.Context(), in)
		in.Cache, in.Buffers = memory, buffers
		quick := schedule.SchedulePod(t.Context(), in)
		for _, d := range schedule.Differences(plain, quick) {
			t.Fatalf("Pod %d: %s", i, d)
		}
		if quick.Scheduled() {
			if err := w.AssumePod(p, quick.SuggestedHost); err != nil {
				t.Fatal(err)
			}
		}
		if i%7 == 0 && last != nil {
			w.RemovePod(last.UID)
		}
		last = p
	}
	if c := memory.Counts(); c.Bypassed+c.RowsFiltered > 0 || c.Hits == 0 {
		t.Errorf("got %+v, want hits, and no Pod bypassed or row filtered", c)
	}
}

// TestNodeGroupsAreNotRetriedEachCycle: where hardly two nodes look alike each of them is
// asked about, nothing is kept of the attempt to find groups, and the next one waits.
func TestNodeGroupsAreNotRetriedEachCycle(t *testing.T) {
	const nodes = 300
	w := snapshot.NewCache()
	put := func(racks int) {
		for i := range nodes {
			w.SetNode(node(fmt.Sprintf("n%d", i), "4", "8Gi",
				func(n *v1.Node) { n.Labels["rack"] = fmt.Sprintf("r%d", i%racks) }))
		}
	}
	put(nodes / 2)
	pluginSet, memory, buffers := defaultPlugins(t), &schedule.EquivalenceCache{}, &schedule.Buffers{}
	rule := func(times int) {
		for range times {
			p := pod("p", "10m", "")
			p.Labels = map[string]string{"app": "web"}
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "rack",
				WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}
			in := schedule.Input{Pod: p, Snapshot: w.UpdateSnapshot(), Plugins: pluginSet}
			plain := schedule.SchedulePod(t.Context(), in)
			in.Cache, in.Buffers = memory, buffers
			for _, d := range schedule.Differences(plain, schedule.SchedulePod(t.Context(), in)) {
				t.Fatalf("got %v, want no difference between the two schedulers", d)
			}
		}
	}
	rule(2)
	if n, groups := memory.Resting(); n != 1 || groups != 0 || memory.Counts().RowsFiltered != 2 {
		t.Errorf("%d partitions rest, with %d groups; %+v", n, groups, memory.Counts())
	}
	put(3)
	rule(schedule.RetryInterval)
	if c := memory.Counts(); c.RowsFiltered != schedule.RetryInterval {
		t.Errorf("nodes that are alike now were asked one by one %d times, want %d: %+v", c.RowsFiltered,
			schedule.RetryInterval, c)
	}
}
