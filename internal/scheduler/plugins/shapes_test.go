package plugins_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/imagelocality"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/interpodaffinity"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeaffinity"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodename"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeports"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/noderesources"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeunschedulable"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/podtopologyspread"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/tainttoleration"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/test/expect"
)

// keyOf is a Pod's shape, or the key of its aggregate; "" where the plugin does not share Pods like
// it.
func keyOf(pl framework.Plugin, p *v1.Pod) string {
	before := []byte("before ")
	if a, ok := pl.(schedule.AggregatingPlugin); ok {
		key, made := a.AppendAggregateKey(before, p)
		if made == nil {
			return ""
		}
		return string(key)
	}
	key, ok := pl.(interface {
		AppendShape([]byte, *v1.Pod) ([]byte, bool)
	}).AppendShape(before, p)
	if !ok {
		return ""
	}
	return string(key)
}

type pods = []*v1.Pod

func images(init, main, mounted string) *v1.Pod {
	return newPod("p", func(p *v1.Pod) {
		p.Spec.Containers = nil
		for _, image := range strings.Fields(init) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Image: image})
		}
		for _, image := range strings.Fields(main) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Image: image})
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "no image"})
		for _, image := range strings.Fields(mounted) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{
				Image: &v1.ImageVolumeSource{Reference: image}}})
		}
	})
}

func expression(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
}

func term(all ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: all}
}

func mustBeIn(terms ...v1.NodeSelectorTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		nodeAffinityOf(p).RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: terms}
	}
}

func prefers(weight int32, t v1.NodeSelectorTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		a := nodeAffinityOf(p)
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			v1.PreferredSchedulingTerm{Weight: weight, Preference: t})
	}
}

func nodeAffinityOf(p *v1.Pod) *v1.NodeAffinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}}
	}
	return p.Spec.Affinity.NodeAffinity
}

func selects(pairs ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.NodeSelector = map[string]string{}
		for _, pair := range pairs {
			k, v, _ := strings.Cut(pair, "=")
			p.Spec.NodeSelector[k] = v
		}
	}
}

func named(name string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{expression("metadata.name", "In", name)}}
}

// affinityPods differ in what they ask of nodes' labels.
func affinityPods() pods {
	const in, notIn = v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn
	return pods{newPod("p"), newPod("p", selects("a=b")), newPod("p", selects("a=c")), newPod("p", selects("b=b")),
		newPod("p", selects("a=b", "b=b")),
		newPod("p", mustBeIn(term(expression("a", in, "b")))), newPod("p", mustBeIn(term(expression("a", notIn, "b")))),
		newPod("p", mustBeIn(term(expression("b", in, "b")))), newPod("p", mustBeIn(term(expression("a", in, "c")))),
		newPod("p", mustBeIn(term(expression("a", in, "b", "c")))),
		newPod("p", mustBeIn(term(expression("a", in, "b"), expression("c", in, "d")))),
		newPod("p", mustBeIn(term(expression("a", in, "b")), term(expression("c", in, "d")))),
		newPod("p", mustBeIn(term(expression("a", in, "b")), term())),
		newPod("p", prefers(1, term(expression("a", in, "b")))),
		newPod("p", prefers(2, term(expression("a", in, "b")))),
		newPod("p", prefers(1, term(expression("a", in, "c")))),
		newPod("p", prefers(1, term(expression("a", notIn, "b")))),
		newPod("p", prefers(1, term(expression("a", in, "b"))), prefers(1, term(expression("a", in, "b")))),
		newPod("p", mustBeIn(term(expression("a", in, "b"))), prefers(1, term(expression("a", in, "b"))))}
}

// spreadPods differ in what spreading reads of them.
func spreadPods() pods {
	web := withPodLabels("app=web")
	one := func(change ...func(*v1.TopologySpreadConstraint)) *v1.Pod {
		return newPod("p", web, spread(1, "zone", v1.DoNotSchedule, change...))
	}
	basic := spread(1, "zone", v1.DoNotSchedule)
	ignore := v1.NodeInclusionPolicyIgnore
	return pods{one(), newPod("p", spread(1, "zone", v1.DoNotSchedule)),
		newPod("p", web, spread(2, "zone", v1.DoNotSchedule)), newPod("p", web, spread(1, "host", v1.DoNotSchedule)),
		newPod("p", web, spread(1, "zone", v1.ScheduleAnyway)), newPod("p", withPodLabels("app=db"), basic),
		newPod("p", web, basic, basic), newPod("p", web, basic, inNamespace("ns2")),
		newPod("p", web, basic, selects("a=b")),
		one(func(c *v1.TopologySpreadConstraint) { c.MinDomains = new(int32(1)) }),
		one(func(c *v1.TopologySpreadConstraint) { c.MinDomains = new(int32(2)) }),
		one(func(c *v1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &ignore }),
		one(func(c *v1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &ignore }),
		one(func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"app"} }),
		one(func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"rev"} }),
		one(func(c *v1.TopologySpreadConstraint) { c.LabelSelector = &metav1.LabelSelector{} }),
		newPod("p", web, basic, tolerate(v1.Toleration{Key: "a"})),
		newPod("p", web, basic, tolerate(v1.Toleration{Key: "b"})),
		newPod("p", web, basic, tolerate(v1.Toleration{Key: "a", Operator: v1.TolerationOpExists})),
		newPod("p", web, basic, tolerate(v1.Toleration{Key: "a", Value: "v"})),
		newPod("p", web, basic, tolerate(v1.Toleration{Key: "a", Effect: v1.TaintEffectNoExecute})),
		newPod("p", web, basic, mustBeIn(term(expression("a", v1.NodeSelectorOpIn, "b")))),
		newPod("p", web, basic, mustBeIn(term(expression("a", v1.NodeSelectorOpIn, "c"))))}
}

// Pods that a plugin tells apart have different keys, those that it does not the same, and what
// stood before a key stays.
//
// row: FIL-02, FIL-03, FIL-04, FIL-07, FIL-12, FIL-19, SCO-04, SCO-05, SCO-07, SCO-08, SCO-10
func TestKeysOfPods(t *testing.T) {
	fit := expect.Value(noderesources.NewFit(fitArgs(nil)))
	balanced := noderesources.NewBalanced(&config.NodeResourcesBalancedAllocationArgs{
		Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}}})
	asking := pods{newPod("p"), newPod("p", requests("cpu=100m")), newPod("p", requests("cpu=1")),
		newPod("p", requests("memory=200Mi")), newPod("p", requests("memory=1Gi")),
		newPod("p", requests("ephemeral-storage=1Gi")), newPod("p", requests("x.org/a=1")),
		newPod("p", requests("x.org/a=2")),
		newPod("p", requests("x.org/b=1")), newPod("p", requests("x.org/a=1", "x.org/b=1"))}
	two := newPod("p", requests("cpu=1"), func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{})
	})
	selectorOf := func(p *v1.Pod) labels.Selector {
		if p.Labels["app"] == "" {
			return nil
		}
		return labels.SelectorFromSet(labels.Set{"app": p.Labels["app"]})
	}
	defaults := podtopologyspread.New(&config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting},
		selectorOf)
	peers := affinityTermPods()
	for name, c := range map[string]struct {
		pl   framework.Plugin
		pods pods
	}{
		"images": {imagelocality.New(), pods{images("", "a", ""), images("a", "", ""), images("", "", "a"),
			images("", "b", ""), images("", "a b", ""), images("", "b a", ""), images("a", "b", ""),
			images("b", "a", ""),
			images("a b", "", ""), images("a", "", "b"), images("", "a", "b"), images("", "", "a b")}},
		"node affinity": {expect.Value(nodeaffinity.New(nil)), affinityPods()},
		"fit":           {fit, append(asking, two)},
		"balanced":      {balanced, asking},
		"spread":        {podtopologyspread.New(nil, nil), spreadPods()},
		"spread by default": {defaults, pods{newPod("p", withPodLabels("app=web")),
			newPod("p", withPodLabels("app=db")),
			newPod("p", withPodLabels("app=web"), inNamespace("ns2"))}},
		"peers": {interpodaffinity.New(nil, nil), peers},
		"ports": {nodeports.New(), pods{newPod("p"), newPod("p", hostPort(80))}},
		"taints": {tainttoleration.New(), pods{newPod("p"), newPod("p", tolerate(v1.Toleration{Key: "a"})),
			newPod("p", tolerate(v1.Toleration{Key: "b"})),
			newPod("p", tolerate(v1.Toleration{Key: "a", Operator: v1.TolerationOpExists})),
			newPod("p", tolerate(v1.Toleration{Key: "a", Value: "x"})),
			newPod("p", tolerate(v1.Toleration{Key: "a", Effect: v1.TaintEffectNoSchedule})),
			newPod("p", tolerate(v1.Toleration{Key: "a", Effect: v1.TaintEffectPreferNoSchedule})),
			newPod("p", tolerate(v1.Toleration{Key: "a"}), tolerate(v1.Toleration{Key: "b"}))}},
		"the node's name": {nodename.New(), pods{newPod("p"), newPod("p", onNode("a")), newPod("p", onNode("b"))}},
		"cordoned nodes": {nodeunschedulable.New(), pods{newPod("p"),
			newPod("p", tolerate(v1.Toleration{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists}))}},
	} {
		seen := map[string]int{}
		for i, p := range c.pods {
			key := keyOf(c.pl, p)
			if other, there := seen[key]; there || !strings.HasPrefix(key, "before ") {
				t.Errorf("%s: Pods %d and %d have the key %q, want two that begin with what was there", name, other,
					i, key)
			}
			seen[key] = i
			if again := keyOf(c.pl, renamedCopy(p)); again != key {
				t.Errorf("%s: a copy of Pod %d has the key %q, want %q", name, i, again, key)
			}
		}
	}
	for name, c := range map[string]struct {
		pl framework.Plugin
		p  *v1.Pod
	}{
		"a node's name":            {expect.Value(nodeaffinity.New(nil)), newPod("p", mustBeIn(term(), named("a")))},
		"a preferred node's name":  {expect.Value(nodeaffinity.New(nil)), newPod("p", prefers(1, named("a")))},
		"nothing to spread over":   {defaults, newPod("p")},
		"spreading without a rule": {podtopologyspread.New(nil, nil), newPod("p")},
	} {
		if key := keyOf(c.pl, c.p); key != "" {
			t.Errorf("%s: got the key %q, want none", name, key)
		}
	}
}

func renamedCopy(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	p.Name, p.UID = "copy", "copy"
	return p
}

// affinityTermPods differ in their terms about other Pods.
func affinityTermPods() pods {
	near := func(change func(*v1.PodAffinityTerm)) v1.PodAffinityTerm {
		t := v1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"app": "web"}}}
		if change != nil {
			change(&t)
		}
		return t
	}
	with := func(a *v1.Affinity) *v1.Pod { return newPod("p", func(p *v1.Pod) { p.Spec.Affinity = a }) }
	required := func(t ...v1.PodAffinityTerm) *v1.Pod {
		return with(&v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: t}})
	}
	weighed := func(n int32) []v1.WeightedPodAffinityTerm {
		return []v1.WeightedPodAffinityTerm{{Weight: n, PodAffinityTerm: near(nil)}}
	}
	return pods{newPod("p"), newPod("p", inNamespace("ns2")), newPod("p", withPodLabels("app=web")),
		required(near(nil)),
		required(near(nil), near(nil)), required(near(func(t *v1.PodAffinityTerm) { t.TopologyKey = "host" })),
		required(near(func(t *v1.PodAffinityTerm) { t.LabelSelector = &metav1.LabelSelector{} })),
		required(near(func(t *v1.PodAffinityTerm) { t.Namespaces = []string{"a"} })),
		required(near(func(t *v1.PodAffinityTerm) { t.Namespaces = []string{"a", "b"} })),
		required(near(func(t *v1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} })),
		with(&v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{near(nil)}}}),
		with(&v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighed(1)}}),
		with(&v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighed(2)}}),
		with(&v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: weighed(1)}})}
}

// What every plugin signs of a Pod, or why it does not.
func TestSignatures(t *testing.T) {
	rich := newPod("p", requests("cpu=1"), hostPort(80), withPodLabels("app=web"), onNode("n"), mounts("data"),
		tolerate(v1.Toleration{Key: "a"}), selects("a=b"), mustBeIn(term(expression("a", "In", "b"))), restartsAll,
		func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{{Image: "first/init"}} })
	peers := newPod("p", spread(1, "zone", v1.DoNotSchedule), func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}}
	})
	minding := newPod("p", func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{}} })
	const volumes = `v1.Pod.Spec.Volumes.NonSyntheticSources()=[{"persistentVolumeClaim":{"claimName":"data"}}]`
	const requests = "v1.Pod.Spec.ContainerRequestsAndOverheads()=[{1000 0 0 0 map[]} {1000 209715200 0 0 map[]}]"
	const tolerations = "v1.Pod.Spec.Tolerations=[{a    <nil>}]"
	want := map[string]string{
		"SchedulingGates": "", "PodTopologySpread": "", "DynamicResources": "",
		"NodeUnschedulable": tolerations, "TaintToleration": tolerations, "NodeName": "v1.Pod.Spec.NodeName=n",
		"NodeAffinity": `v1.Pod.Spec.Affinity.NodeAffinity={[{"MatchExpressions":` +
			`["{\"key\":\"a\",\"operator\":\"In\",` +
			`\"values\":[\"b\"]}"],"MatchFields":[]}] []} v1.Pod.Spec.Affinity.NodeSelector=map[a:b]`,
		"NodePorts": "v1.Pod.Spec.HostPorts()=[80]", "NodeResourcesFit": requests,
		"NodeResourcesBalancedAllocation": requests, "VolumeRestrictions": volumes, "NodeVolumeLimits": volumes,
		"VolumeBinding": volumes, "VolumeZone": volumes,
		"InterPodAffinity":     "v1.Pod.Labels=map[app:web] v1.Pod.Namespace=ns",
		"ImageLocality":        "v1.Pod.Spec.CanonicalImageNames()=[first/init:latest img:latest]",
		"NodeDeclaredFeatures": "v1.Pod.Spec.RequiredFeatures()=000000100",
	}
	refusals := map[string]string{"PodTopologySpread": "topology spread is not signed; ",
		"InterPodAffinity": "inter-Pod affinity is not signed; inter-Pod affinity is not signed"}
	for _, r := range plugins.InTree {
		if r.New == nil {
			continue
		}
		pl, ok := pluginOf(t, r).(framework.SignPlugin)
		if !ok {
			continue
		}
		parts, s := pl.SignPod(t.Context(), rich)
		var got []string
		for _, part := range parts {
			got = append(got, fmt.Sprintf("%s=%v", part.Key, part.Value))
		}
		if text := strings.Join(got, " "); text != want[pl.Name()] || !s.IsSuccess() {
			t.Errorf("%s: got  %s, %v\nwant %s", pl.Name(), text, s, want[pl.Name()])
		}
		delete(want, pl.Name())
		_, a := pl.SignPod(t.Context(), peers)
		_, b := pl.SignPod(t.Context(), minding)
		if got, want := a.Message()+"; "+b.Message(), cmp.Or(refusals[pl.Name()], "; "); got != want {
			t.Errorf("%s: got %q, want %q", pl.Name(), got, want)
		}
	}
	if len(want) > 0 {
		t.Errorf("sign nothing: %v", want)
	}
}
