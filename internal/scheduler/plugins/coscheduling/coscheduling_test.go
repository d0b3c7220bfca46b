package coscheduling

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/wrappers"
)

// fakeSources is what the plugin sees, and what it does.
type fakeSources struct {
	framework.Handle
	framework.SharedLister
	framework.NodeInfoLister

	groups             []*Group
	members            []*v1.Pod
	nodes              []framework.NodeInfo
	waiting            []*waitingPod
	noMembers, noNodes error
	inBackoff          string // name of a group
	did                []string
}

func (w *fakeSources) Group(namespace, name string) *Group {
	for _, g := range w.groups {
		if g.Namespace == namespace && g.Name == name {
			return g
		}
	}
	return nil
}

func (w *fakeSources) Members(namespace, group string) (out []*v1.Pod, err error) {
	for _, p := range w.members {
		if p.Namespace == namespace && p.Labels[Label] == group {
			out = append(out, p)
		}
	}
	return out, w.noMembers
}

func (w *fakeSources) Backoff(g *Group, d time.Duration) {
	w.did = append(w.did, fmt.Sprintf("back-off of %s for %s", g.Name, d))
}

func (w *fakeSources) InBackoff(g *Group) bool                      { return g.Name == w.inBackoff }
func (w *fakeSources) SnapshotSharedLister() framework.SharedLister { return w }
func (w *fakeSources) NodeInfos() framework.NodeInfoLister          { return w }
func (w *fakeSources) List() ([]framework.NodeInfo, error)          { return w.nodes, w.noNodes }
func (w *fakeSources) IterateOverWaitingPods(callback func(w framework.WaitingPod)) {
	for _, p := range w.waiting {
		callback(p)
	}
}

func (w *fakeSources) Activate(_ logr.Logger, pods map[string]*v1.Pod) {
	var names []string
	for key := range pods {
		names = append(names, key)
	}
	slices.Sort(names)
	w.did = append(w.did, "activate "+strings.Join(names, " "))
}

type waitingPod struct {
	framework.WaitingPod
	pod *v1.Pod
	w   *fakeSources
}

func (p *waitingPod) GetPod() *v1.Pod { return p.pod }
func (p *waitingPod) Allow(plugin string) {
	p.w.did = append(p.w.did, fmt.Sprintf("%s allows %s/%s", plugin, p.pod.Namespace, p.pod.Name))
}
func (p *waitingPod) Reject(plugin, why string) bool {
	p.w.did = append(p.w.did, fmt.Sprintf("%s rejects %s/%s: %s", plugin, p.pod.Namespace, p.pod.Name, why))
	return true
}

// pod is a Pod "namespace/name" of a group, on a node unless that is empty.
func pod(key, group, node string) *v1.Pod {
	ns, name, _ := strings.Cut(key, "/")
	p := wrappers.MakePod().Namespace(ns).Name(name).UID(key).Obj()
	if group != "" {
		p.Labels = map[string]string{Label: group}
	}
	p.Spec.NodeName = node
	p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi"),
		"ephemeral-storage": resource.MustParse("2Gi"), "x.org/d": resource.MustParse("1")}}}}
	return p
}

func groupOf(name string, least int32) *Group {
	return &Group{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: Spec{MinMember: least}}
}

// newSources has the groups "train" and its namesake elsewhere, with the members of the former on a
// node as told, and members of others beside them.
func newSources(least, members, placed int) (*fakeSources, *Plugin) {
	other := groupOf("train", 1)
	other.Namespace = "elsewhere"
	w := &fakeSources{groups: []*Group{groupOf("train", int32(least)), other, groupOf("other", 2)}}
	pods := []*v1.Pod{pod("elsewhere/train-9", "train", "n"), pod("ns/other-0", "other", "n"), pod("ns/plain", "", "n")}
	for i := range members {
		node := ""
		if i < placed {
			node = "n"
		}
		p := pod(fmt.Sprint("ns/train-", i), "train", node)
		w.members = append(w.members, p)
		if i < placed {
			pods = append(pods, p)
			w.waiting = append(w.waiting, &waitingPod{pod: p, w: w})
		}
	}
	for _, p := range pods[:3] {
		w.waiting = append(w.waiting, &waitingPod{pod: p, w: w})
	}
	w.members = append(w.members, pods[:3]...)
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		"cpu": resource.MustParse("8"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("10"),
		"ephemeral-storage": resource.MustParse("20Gi"), "x.org/d": resource.MustParse("8")}}}
	w.nodes = snapshot.Of([]*v1.Node{n}, pods).All()
	a := &Args{}
	a.Complete()
	return w, New(a, w, w)
}

func say(s *framework.Status) string {
	if s == nil {
		return "Success: "
	}
	return s.Code().String() + ": " + s.Message()
}

func TestPermit(t *testing.T) {
	fifth := pod("ns/train-4", "train", "")
	allowed := []string{"Coscheduling allows ns/train-0", "Coscheduling allows ns/train-1"}
	for name, c := range map[string]struct {
		placed  int
		p       *v1.Pod
		change  func(*fakeSources, *Plugin)
		want    string
		timeout time.Duration
		did     []string
	}{
		"the last that is needed": {placed: 2, p: fifth, want: "Success: ", did: allowed},
		"one is missing": {placed: 1, p: fifth, want: "Wait: 2 of 3 members of PodGroup ns/train have a node",
			timeout: time.Minute},
		"the first wakes its siblings": {placed: 0, p: fifth, timeout: time.Minute,
			want: "Wait: 1 of 3 members of PodGroup ns/train have a node",
			did:  []string{"activate ns/train-0 ns/train-1 ns/train-2 ns/train-3"}},
		"the group says how long": {placed: 1, p: fifth, timeout: 7 * time.Second,
			want:   "Wait: 2 of 3 members of PodGroup ns/train have a node",
			change: func(w *fakeSources, _ *Plugin) { w.groups[0].Spec.ScheduleTimeoutSeconds = new(int32(7)) }},
		"the arguments say": {placed: 1, p: fifth, timeout: 9 * time.Second,
			want:   "Wait: 2 of 3 members of PodGroup ns/train have a node",
			change: func(_ *fakeSources, p *Plugin) { p.args.PermitWaitingTimeSeconds = new(int64(9)) }},
		"no members to be had": {placed: 0, p: fifth, timeout: time.Minute,
			want:   "Wait: 1 of 3 members of PodGroup ns/train have a node",
			change: func(w *fakeSources, _ *Plugin) { w.noMembers = errors.New("no") }},
		"no nodes to be had": {placed: 0, p: fifth, want: "Error: listing nodes: no",
			change: func(w *fakeSources, _ *Plugin) { w.noNodes = errors.New("no") }},
		"of no group":    {placed: 2, p: pod("ns/alone", "", ""), want: "Success: "},
		"of one missing": {placed: 2, p: pod("ns/alone", "gone", ""), want: "Unschedulable: PodGroup not found"},
	} {
		w, pl := newSources(3, 5, c.placed)
		if c.change != nil {
			c.change(w, pl)
		}
		s, d := pl.Permit(t.Context(), nil, c.p, "n")
		if say(s) != c.want || d != c.timeout || !slices.Equal(w.did, c.did) {
			t.Errorf("%s: got %s, %s, did %q, want %s, %s, %q", name, say(s), d, w.did, c.want, c.timeout, c.did)
		}
	}
}

func TestUnreserveTurnsTheGroupBack(t *testing.T) {
	w, pl := newSources(3, 4, 2)
	pl.Unreserve(t.Context(), nil, pod("ns/alone", "", ""), "n")
	pl.Unreserve(t.Context(), nil, pod("ns/alone", "gone", ""), "n")
	if len(w.did) > 0 {
		t.Errorf("for Pods of no group: %q", w.did)
	}
	pl.Unreserve(t.Context(), nil, w.members[2], "n")
	if want := []string{"Coscheduling rejects ns/train-0: rejection in Unreserve",
		"Coscheduling rejects ns/train-1: rejection in Unreserve"}; !slices.Equal(w.did, want) {
		t.Errorf("got %q, want %q", w.did, want)
	}
	if s := pl.Reserve(t.Context(), nil, w.members[2], "n"); s != nil {
		t.Errorf("Reserve: got %s, want success", say(s))
	}
}

func TestPreFilter(t *testing.T) {
	asks := func(pairs ...string) func(*fakeSources) {
		return func(w *fakeSources) {
			w.groups[0].Spec.MinResources = v1.ResourceList{}
			for _, p := range pairs {
				name, q, _ := strings.Cut(p, "=")
				w.groups[0].Spec.MinResources[v1.ResourceName(name)] = resource.MustParse(q)
			}
		}
	}
	few := "Pending: pre-filter pod train-0 cannot find enough sibling pods, current pods number: 2, minMember of " +
		"group: 3"
	for name, c := range map[string]struct {
		members int
		change  func(*fakeSources)
		want    string
	}{
		"enough members": {members: 3, want: "Success: "},
		"too few":        {members: 2, want: few},
		"in back-off": {members: 3, change: func(w *fakeSources) { w.inBackoff = "train" },
			want: "UnschedulableAndUnresolvable: podGroup ns/train failed recently"},
		"another is": {members: 3, change: func(w *fakeSources) { w.inBackoff = "other" }, want: "Success: "},
		"no members to be had": {members: 3, change: func(w *fakeSources) { w.noMembers = errors.New("no") },
			want: "Error: listing members of PodGroup ns/train: no"},
		"of no group": {members: 2, change: func(w *fakeSources) { w.members[0].Labels = nil }, want: "Success: "},
		// of the node three Pods have 3 CPUs, 3 GiB, 6 GiB and 3 devices, not counting the member
		"as much as is free": {members: 3, want: "Success: ",
			change: asks("cpu=5", "memory=5Gi", "ephemeral-storage=14Gi", "pods=7", "x.org/d=5")},
		"more CPU": {members: 3, change: asks("cpu=5001m"),
			want: "UnschedulableAndUnresolvable: resource gap: map[cpu:{{1 -3} {<nil>}  DecimalSI}]"},
		"nothing free of its kind": {members: 3, change: asks("y.org/d=1"),
			want: "UnschedulableAndUnresolvable: resource gap: map[y.org/d:{{1 0} {<nil>} 1 DecimalSI}]"},
		"asks nothing": {members: 3, change: asks("cpu=0"), want: "Success: "},
	} {
		w, pl := newSources(3, c.members, 1)
		if c.change != nil {
			c.change(w)
		}
		r, s := pl.PreFilter(t.Context(), nil, w.members[0], w.nodes)
		if r != nil || stripped(say(s)) != stripped(c.want) {
			t.Errorf("%s: got %v, %s, want %s", name, r, say(s), c.want)
		}
	}
	for _, one := range []string{"memory=5121Mi", "ephemeral-storage=15Gi", "pods=8", "x.org/d=6"} {
		w, pl := newSources(3, 3, 1)
		asks(one)(w)
		name, _, _ := strings.Cut(one, "=")
		_, s := pl.PreFilter(t.Context(), nil, w.members[0], w.nodes)
		if got := say(s); !strings.HasPrefix(got, "UnschedulableAndUnresolvable: resource gap: map["+name+":") {
			t.Errorf("%s: got %s, want a gap of it", one, got)
		}
	}
	// two nodes have twice as much
	w, pl := newSources(3, 3, 1)
	asks("cpu=10")(w)
	if _, s := pl.PreFilter(t.Context(), nil, w.members[0], append(w.nodes, w.nodes...)); s != nil {
		t.Errorf("on two nodes: got %s, want success", say(s))
	}
}

// stripped is a text without the spaces in quantities.
func stripped(s string) string { return strings.ReplaceAll(s, " ", "") }

func TestPostFilter(t *testing.T) {
	rejected := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("Coscheduling rejects ns/train-%d: optimistic rejection in PostFilter", i))
		}
		return out
	}
	gone := "Unschedulable: PodGroup ns/train gets rejected due to Pod train-0 is unschedulable even after PostFilter"
	for name, c := range map[string]struct {
		least, members, placed int
		change                 func(*fakeSources, *Plugin)
		want                   string
		did                    []string
	}{
		"complete without it":   {least: 3, members: 4, placed: 3, want: "Unschedulable: "},
		"one of ten is missing": {least: 10, members: 10, placed: 9, want: "Unschedulable: "},
		"two of ten are":        {least: 10, members: 10, placed: 8, want: gone, did: rejected(8)},
		"one of nine is":        {least: 9, members: 9, placed: 8, want: gone, did: rejected(8)},
		"rests": {least: 3, members: 3, placed: 1, want: gone, did: append(rejected(1), "back-off of train for 1s"),
			change: func(_ *fakeSources, p *Plugin) { p.args.PodGroupBackoffSeconds = new(int64(1)) }},
		"too few to rest": {least: 3, members: 2, placed: 1, want: gone, did: rejected(1),
			change: func(_ *fakeSources, p *Plugin) { p.args.PodGroupBackoffSeconds = new(int64(1)) }},
		"no members to be had": {least: 3, members: 3, placed: 1, want: gone, did: rejected(1),
			change: func(w *fakeSources, p *Plugin) {
				w.noMembers, p.args.PodGroupBackoffSeconds = errors.New("no"), new(int64(1))
			}},
		"no nodes to be had": {least: 3, members: 3, placed: 1, want: "Error: listing nodes: no",
			change: func(w *fakeSources, _ *Plugin) { w.noNodes = errors.New("no") }},
		"of no group": {least: 3, members: 3, placed: 1, want: "Unschedulable: can not find pod group",
			change: func(w *fakeSources, _ *Plugin) { w.members[0].Labels = nil }},
	} {
		w, pl := newSources(c.least, c.members, c.placed)
		if c.change != nil {
			c.change(w, pl)
		}
		r, s := pl.PostFilter(t.Context(), nil, w.members[0], nil)
		if say(s) != c.want || !slices.Equal(w.did, c.did) || (r == nil) != (s.Code() == framework.Error) {
			t.Errorf("%s: got %v, %s, did %q, want %s, %q", name, r, say(s), w.did, c.want, c.did)
		}
	}
}

// queued is an entry of the queue.
type queued struct {
	framework.QueuedEntityInfo
	pod      *v1.Pod
	priority int32
	first    *time.Time
	since    time.Time
}

func (q queued) GetPod() *v1.Pod                        { return q.pod }
func (q queued) GetPriority() int32                     { return q.priority }
func (q queued) GetTimestamp() time.Time                { return q.since }
func (q queued) GetInitialAttemptTimestamp() *time.Time { return q.first }

// noPod is an entry that is no Pod.
type noPod struct {
	framework.QueuedEntityInfo
	since time.Time
}

func (q noPod) GetPriority() int32                     { return 1 }
func (q noPod) GetTimestamp() time.Time                { return q.since }
func (q noPod) GetInitialAttemptTimestamp() *time.Time { return nil }

// Every entry of the list comes before all that follow, and never the other way round.
func TestTheOrderOfTheQueue(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	w, pl := newSources(3, 0, 0)
	w.groups[0].CreationTimestamp = metav1.NewTime(at(10))
	w.groups[2].CreationTimestamp = metav1.NewTime(at(10))
	entry := func(key, group string, priority int32, first, since int64) queued {
		q := queued{pod: pod(key, group, ""), priority: priority, since: at(since)}
		if first > 0 {
			q.first = new(at(first))
		}
		return q
	}
	list := []framework.QueuedEntityInfo{
		entry("ns/z", "", 9, 90, 90),
		noPod{since: at(1)},
		entry("ns/first", "", 1, 5, 99), // when it was first tried counts
		entry("ns/second", "", 1, 0, 9), // it never was
		noPod{since: at(10)},
		entry("ns/other-1", "other", 1, 1, 1), // of its group counts when that was made
		entry("ns/other-2", "other", 1, 50, 50),
		entry("ns/plain", "", 1, 10, 10),
		entry("ns/train-0", "train", 1, 2, 2),
		entry("ns/train-1", "train", 1, 1, 1),
		entry("ns/unborn", "gone", 1, 11, 2),
		entry("ns/low", "train", 0, 1, 1),
	}
	for i, a := range list {
		for j, b := range list {
			if got := pl.Less(a, b); got != (i < j) {
				t.Errorf("%d before %d: got %t, want %v", i, j, got, (i < j))
			}
		}
	}
}

func TestPodQueueingHints(t *testing.T) {
	for name, c := range map[string]struct {
		members int
		p       *v1.Pod
		change  func(*fakeSources)
		now     any
		want    string
	}{
		"the last member":      {members: 3, now: pod("ns/train-2", "train", ""), want: "Queue <nil>"},
		"others are to come":   {members: 2, now: pod("ns/train-1", "train", ""), want: "QueueSkip <nil>"},
		"of another group":     {members: 3, now: pod("ns/other-1", "other", ""), want: "QueueSkip <nil>"},
		"of another namespace": {members: 3, now: pod("elsewhere/train-1", "train", ""), want: "QueueSkip <nil>"},
		"no Pod":               {members: 3, now: "train", want: "QueueSkip <nil>"},
		"the group is missing": {members: 2, now: pod("ns/x", "gone", ""), p: pod("ns/y", "gone", ""),
			want: "Queue <nil>"},
		"no members to be had": {members: 2, now: pod("ns/train-1", "train", ""),
			change: func(w *fakeSources) { w.noMembers = errors.New("no") }, want: "Queue no"},
	} {
		w, pl := newSources(3, c.members, 0)
		if c.change != nil {
			c.change(w)
		}
		if c.p == nil {
			c.p = pod("ns/train-0", "train", "")
		}
		events, err := pl.EventsToRegister(t.Context())
		if err != nil || len(events) != 2 || events[0].Event != (framework.ClusterEvent{Resource: framework.Pod,
			ActionType: framework.Add}) || events[1].Event != (framework.ClusterEvent{
			Resource: "podgroups.v1alpha1.scheduling.x-k8s.io", ActionType: framework.Add | framework.Update}) {
			t.Fatalf("got %v, %v", events, err)
		}
		got, err := events[0].QueueingHintFn(logr.Discard(), c.p, nil, c.now)
		if text := fmt.Sprint(got, " ", err); text != c.want {
			t.Errorf("%s: got %s, want %s", name, text, c.want)
		}
	}
	// a change of a group whose earlier state is unknown wakes its members
	now := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "ns",
		"name": "train"}}}
	for _, before := range []any{nil, (*unstructured.Unstructured)(nil), "train"} {
		if got, err := isSchedulableAfterPodGroupChange(logr.Discard(), pod("ns/x", "train", ""), before,
			now); got != framework.Queue || err != nil {
			t.Errorf("before %v: got %v, %v, want Queue", before, got, err)
		}
	}
	if got, _ := isSchedulableAfterPodGroupChange(logr.Discard(), pod("elsewhere/x", "train", ""), nil,
		now); got != framework.QueueSkip {
		t.Errorf("of another namespace: got %v, want QueueSkip", got)
	}
}

func TestArgs(t *testing.T) {
	a := &Args{}
	a.Complete()
	if *a.PermitWaitingTimeSeconds != 60 || *a.PodGroupBackoffSeconds != 0 {
		t.Errorf("got %d and %d, want 60 and 0", *a.PermitWaitingTimeSeconds, *a.PodGroupBackoffSeconds)
	}
	if errs := a.Check(field.NewPath("args")); len(errs) > 0 {
		t.Errorf("defaults: %v", errs)
	}
	*a.PermitWaitingTimeSeconds, *a.PodGroupBackoffSeconds = 0, 7
	a.Complete()
	if *a.PermitWaitingTimeSeconds != 0 || *a.PodGroupBackoffSeconds != 7 {
		t.Errorf("what is given stays: got %d and %d, want 0 and 7", *a.PermitWaitingTimeSeconds,
			*a.PodGroupBackoffSeconds)
	}
	b := a.DeepCopyObject().(*Args)
	if *b.PermitWaitingTimeSeconds != 0 || *b.PodGroupBackoffSeconds != 7 {
		t.Errorf("the copy: got %d and %d, want 0 and 7", *b.PermitWaitingTimeSeconds, *b.PodGroupBackoffSeconds)
	}
	*a.PermitWaitingTimeSeconds, *a.PodGroupBackoffSeconds = -1, -2
	if *b.PermitWaitingTimeSeconds != 0 || *b.PodGroupBackoffSeconds != 7 {
		t.Errorf("the copy changes with what it was made of: got %d and %d, want 0 and 7", *b.PermitWaitingTimeSeconds,
			*b.PodGroupBackoffSeconds)
	}
	if none := (&Args{}).DeepCopyObject().(*Args); none.PermitWaitingTimeSeconds != nil ||
		none.PodGroupBackoffSeconds != nil {
		t.Errorf("a copy of empty arguments: got %+v, want empty ones", none)
	}
	if got := (*Args)(nil).DeepCopyObject(); got != nil {
		t.Errorf("a copy of nothing: got %v, want nil", got)
	}
	want := `[args.permitWaitingTimeSeconds: Invalid value: -1: must be greater than or equal to 0 ` +
		`args.podGroupBackoffSeconds: Invalid value: -2: must be greater than or equal to 0]`
	if got := fmt.Sprint(a.Check(field.NewPath("args"))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestParseMinimum(t *testing.T) {
	for text, want := range map[string]int{
		fmt.Sprintf(assignedText, 2, 13, "ns", "train"): 13,
		fmt.Sprintf(tooFewText, "p", 2, 14):             14,
		NoPodGroup:                                      0,
		"minMember of group: 99999999999999999999":      -1,
	} {
		n, ok := ParseMinimum(text)
		if ok != (want > 0) || ok && n != want {
			t.Errorf("%s: got %d, %t, want %d", text, n, ok, want)
		}
	}
}

func TestStatusTellsWhoseAndSinceWhen(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 999, time.UTC)
	member := pod("ns/train-0", "train", "")
	member.OwnerReferences = []metav1.OwnerReference{{Name: "b"}, {Name: "a"}}
	s := NextStatus(groupOf("train", 1), []*v1.Pod{member, pod("ns/train-1", "train", "")}, now)
	if s.OccupiedBy != "ns/a,ns/b" || !s.ScheduleStartTime.Time.Equal(now.Truncate(time.Second)) {
		t.Errorf("got %q since %s, want ns/a,ns/b since %s", s.OccupiedBy, s.ScheduleStartTime, now)
	}
	g := groupOf("train", 1)
	g.Status = s
	if again := NextStatus(g, []*v1.Pod{pod("ns/x", "train", "")}, now.Add(time.Hour)); !again.Same(s) {
		t.Errorf("an hour later: got %+v, want %+v", again, s)
	}
	later := s
	later.ScheduleStartTime = new(metav1.NewTime(now.Add(time.Hour)))
	other := s
	other.Running++
	if !s.Same(s) || s.Same(later) || s.Same(other) {
		t.Errorf("itself: %t, later: %t, another: %t, want the first alone", s.Same(s), s.Same(later), s.Same(other))
	}
	if got := NextStatus(groupOf("train", 0), nil, now); got.OccupiedBy != "" {
		t.Errorf("without members: %q, want none", got.OccupiedBy)
	}
	s.Scheduled, s.Running, s.Succeeded, s.Failed = 1, 2, 3, 4
	want := fmt.Sprint(map[string]any{"phase": PhaseScheduling, "scheduled": 1, "running": 2, "succeeded": 3,
		"failed":     4,
		"occupiedBy": "ns/a,ns/b", "scheduleStartTime": s.ScheduleStartTime})
	if got := fmt.Sprint(s.Content()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = fmt.Sprint(map[string]any{"phase": "", "scheduled": 0, "running": 0, "succeeded": 0, "failed": 0})
	if got := fmt.Sprint(Status{}.Content()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Which phase follows, for every count of four members.
func TestPhasesOfAllCounts(t *testing.T) {
	phases := []v1.PodPhase{"", v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed} // "": without a node
	for n := range 5 * 5 * 5 * 5 {
		var members []*v1.Pod
		count := map[v1.PodPhase]int{}
		for i, rest := 0, n; i < 4; i, rest = i+1, rest/5 {
			p := pod(fmt.Sprint("ns/", i), "train", "n")
			if p.Status.Phase = phases[rest%5]; p.Status.Phase == "" {
				p.Spec.NodeName = ""
			}
			count[p.Status.Phase]++
			members = append(members, p)
		}
		const least = 2
		begun := count[v1.PodRunning] + count[v1.PodSucceeded]
		want := PhaseScheduling
		switch {
		case count[v1.PodSucceeded] >= least:
			want = PhaseFinished
		case count[v1.PodFailed] > 0 && begun+count[v1.PodFailed] >= least:
			want = PhaseFailed
		case begun >= least:
			want = PhaseRunning
		case 4-count[""] >= least:
			want = PhaseScheduled
		}
		got := NextStatus(groupOf("train", least), members, time.Unix(1, 0))
		if got.Phase != want || int(got.Scheduled) != 4-count[""] || int(got.Running) != count[v1.PodRunning] ||
			int(got.Succeeded) != count[v1.PodSucceeded] || int(got.Failed) != count[v1.PodFailed] {
			t.Errorf("%v: got %+v, want %s", count, got, want)
		}
	}
	g := groupOf("train", 2)
	g.Status.Phase = PhaseFailed
	if got := NextStatus(g, nil, time.Unix(1, 0)).Phase; got != PhaseFailed {
		t.Errorf("a group that failed: got %s, want it to stay so", got)
	}
}

func TestReadGroup(t *testing.T) {
	g, err := ReadGroup(map[string]any{"metadata": map[string]any{"name": "train"},
		"spec": map[string]any{"minMember": int64(3)}})
	if err != nil || g.Name != "train" || g.Spec.MinMember != 3 {
		t.Errorf("got %+v, %v", g, err)
	}
	if g, err := ReadGroup(map[string]any{"spec": "three"}); err == nil || g != nil {
		t.Errorf("got %+v, %v, want an error", g, err)
	}
}
