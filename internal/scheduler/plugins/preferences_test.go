package plugins_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/interpodaffinity"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeaffinity"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/podtopologyspread"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/tainttoleration"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/expect"
)

// A preference that no node, or only one, satisfies leaves out none of them: of a Pod, of the
// profile, of a node and of a Pod that is there.
//
// row: FIL-05
func TestPreferencesVetoNoNode(t *testing.T) {
	const in, exists = v1.NodeSelectorOpIn, v1.NodeSelectorOpExists
	ssd, gone := term(expression("disk", in, "ssd")), named("gone")
	affinity := expect.Value(nodeaffinity.New(nil))
	profile := func(all ...v1.PreferredSchedulingTerm) framework.Plugin {
		return expect.Value(nodeaffinity.New(&config.NodeAffinityArgs{AddedAffinity: &v1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: all}}))
	}
	peers, spreads := interpodaffinity.New(nil, namespaceLabels), podtopologyspread.New(nil, nil)
	web := withPodLabels("app=web")
	nodes := []*v1.Node{newNode("a", label("zone", "1"), taint("x:PreferNoSchedule")),
		newNode("b", label("zone", "2"), label("disk", "hdd"), taint("x:PreferNoSchedule")),
		newNode("c", taint("y:PreferNoSchedule"), taint("z:PreferNoSchedule"))}
	pods := []*v1.Pod{newPod("w1", onNode("a"), web), newPod("w2", onNode("a"), web), newPod("w3", onNode("b"), web),
		newPod("shy", onNode("c"), preferredAntiAffinity(100, affinityTerm("web", v1.LabelHostname)))}
	for name, c := range map[string]struct {
		pl framework.Plugin
		p  *v1.Pod
	}{
		"labels that no node has":   {affinity, newPod("p", prefers(100, ssd))},
		"a name that no node has":   {affinity, newPod("p", prefers(100, gone))},
		"a name that one node has":  {affinity, newPod("p", prefers(1, named("a")))},
		"a label that one node has": {affinity, newPod("p", prefers(1, term(expression("disk", exists))))},
		"the second of two": {affinity, newPod("p", prefers(1, term(expression("zone", exists))), prefers(9,
			ssd))},
		"names that exclude others": {affinity, newPod("p", prefers(1, named("a")), prefers(1, gone))},
		"beside a selector": {affinity, newPod("p", prefers(1, ssd), mustBeIn(named("a"), named("b"),
			named("c")))},
		"the profile's, labels": {profile(v1.PreferredSchedulingTerm{Weight: 1, Preference: ssd}), newPod("p")},
		"the profile's, a name": {profile(v1.PreferredSchedulingTerm{Weight: 1, Preference: gone}), newPod("p")},
		"the profile's, beside a selector": {profile(v1.PreferredSchedulingTerm{Weight: 1, Preference: ssd}),
			newPod("p", mustBeIn(named("a"), named("b"), named("c")))},
		"taints of every node":       {tainttoleration.New(), newPod("p")},
		"near Pods that are nowhere": {peers, newPod("p", preferredAffinity(100, affinityTerm("cache", "zone")))},
		"near Pods of one node":      {peers, newPod("p", preferredAffinity(1, affinityTerm("web", v1.LabelHostname)))},
		"away from where they are":   {peers, newPod("p", preferredAntiAffinity(100, affinityTerm("web", "zone")))},
		"one there wants it away":    {peers, newPod("p", web)},
		"spread over zones": {spreads, newPod("p", web, spread(1, "zone", v1.ScheduleAnyway),
			spread(1, v1.LabelHostname, v1.ScheduleAnyway))},
		"spread over a label that no node has": {spreads, newPod("p", web, spread(1, "rack", v1.ScheduleAnyway))},
	} {
		for form, r := range bothWays(c.p, c.pl, snapshot.Of(nodes, pods)) {
			if got := fitsOn(r, nodes); got != "a b c" {
				t.Errorf("%s, %s: fits on %q, want %q: %s", name, form, got, "a b c", r.Message())
			}
		}
	}
}
