package plugins_test

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodedeclaredfeatures"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

func declares(features ...string) func(*v1.Node) {
	return func(n *v1.Node) { n.Status.DeclaredFeatures = features }
}

func restartsAll(p *v1.Pod) {
	p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{
		{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
}

func TestNodeDeclaredFeaturesStatuses(t *testing.T) {
	const feature = "RestartAllContainersOnContainerExits"
	nodes := []*v1.Node{newNode("old"), newNode("new", declares(feature))}
	pl := nodedeclaredfeatures.New()
	r := schedulePod(newPod("p", restartsAll), pl, snapshot.Of(nodes, nil))
	if got := statusText(r, "new"); got != "fits" {
		t.Errorf("on a node that declares it: %s, want fits", got)
	}
	want := "UnschedulableAndUnresolvable: node declared features check failed - unsatisfied requirements: " + feature
	if got := statusText(r, "old"); !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := statusText(schedulePod(newPod("plain"), pl, snapshot.Of(nodes, nil)), "old"); got != "fits" {
		t.Errorf("a Pod that needs nothing: %s, want fits", got)
	}
	events, err := pl.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		before, after any
		want          framework.QueueingHint
	}{
		"node with it comes":    {nil, nodes[1], framework.Queue},
		"node without it comes": {nil, nodes[0], framework.QueueSkip},
		"node declares it":      {nodes[0], nodes[1], framework.Queue},
		"nothing changed":       {nodes[1], nodes[1], framework.QueueSkip},
	} {
		if got, err := events[0].QueueingHintFn(logr.Discard(), newPod("p", restartsAll), c.before,
			c.after); err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}
