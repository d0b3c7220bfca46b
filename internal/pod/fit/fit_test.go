package fit_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/pod/fit"
)

// row: FIL-13, FIL-16
func TestShortages(t *testing.T) {
	room := fit.Vector{MilliCPU: 4000, Memory: 100, Pods: 2, Scalar: map[v1.ResourceName]int64{"example.com/gpu": 1}}
	used := fit.Vector{MilliCPU: 3000, Memory: 100, Pods: 1}
	for name, c := range map[string]struct {
		ask  fit.Vector
		used fit.Vector
		want string
	}{
		"the rest fits":                 {fit.Vector{MilliCPU: 1000}, used, "[]"},
		"one milli more does not":       {fit.Vector{MilliCPU: 1001}, used, "[{cpu 1001 3000 4000}]"},
		"nothing fits where it is full": {fit.Vector{}, used, "[]"},
		"nothing fits where it is more than full": {fit.Vector{}, fit.Vector{MilliCPU: 5000, Memory: 101, Pods: 1},
			"[]"},
		"a zero fits where there is more than is allowed": {fit.Vector{MilliCPU: 1},
			fit.Vector{MilliCPU: 1, Memory: 101, Pods: 1}, "[]"},
		"all that is short, in order": {fit.Vector{MilliCPU: 9000, Memory: 1,
			Scalar: map[v1.ResourceName]int64{"example.com/gpu": 2, "example.com/b": 1}},
			fit.Vector{Memory: 100, Pods: 2},
			"[{pods 1 2 2} {cpu 9000 0 4000} {memory 1 100 100} {example.com/b 1 0 0} {example.com/gpu 2 0 1}]"},
	} {
		if got := fmt.Sprint(fit.Shortages(&c.ask, &c.used, &room, nil)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAddAndSubAreInverse(t *testing.T) {
	gen := rapid.Custom(func(t *rapid.T) fit.Vector {
		n := rapid.Int64Range(0, 1<<40)
		v := fit.Vector{MilliCPU: n.Draw(t, "cpu"), Memory: n.Draw(t, "memory"), EphemeralStorage: n.Draw(t, "storage"),
			Pods: n.Draw(t, "pods")}
		if rapid.Bool().Draw(t, "gpu?") {
			v.Scalar = map[v1.ResourceName]int64{"example.com/gpu": n.Draw(t, "gpu")}
		}
		return v
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		c := a.Clone()
		c.Add(&b)
		c.Sub(&b)
		for _, name := range []v1.ResourceName{"cpu", "memory", "ephemeral-storage", "pods", "example.com/gpu"} {
			if c.Get(name) != a.Get(name) {
				t.Fatalf("%s: %d, want %d", name, c.Get(name), a.Get(name))
			}
		}
	})
}

func TestVectorOfLeavesOutWhatIsNotAccounted(t *testing.T) {
	one := resource.MustParse("1")
	v := fit.VectorOf(v1.ResourceList{"storage": one, "requests.cpu": one, "hugepages-2Mi": one, "example.com/gpu": one,
		"kubernetes.io/batch": one})
	if len(v.Scalar) != 3 || v.Get("storage") != 0 || v.Get("hugepages-2Mi") != 1 {
		t.Errorf("scalars %v", v.Scalar)
	}
}

// row: FIL-12
// row: FIL-09
func TestUntolerated(t *testing.T) {
	taint := v1.Taint{Key: "dedicated", Value: "web", Effect: v1.TaintEffectNoSchedule}
	for name, c := range map[string]struct {
		t   v1.Toleration
		bad bool
	}{
		"equal": {v1.Toleration{Key: "dedicated", Operator: v1.TolerationOpEqual, Value: "web",
			Effect: v1.TaintEffectNoSchedule}, false},
		"equal by default": {v1.Toleration{Key: "dedicated", Value: "web"}, false},
		"other value":      {v1.Toleration{Key: "dedicated", Value: "db"}, true},
		"other effect":     {v1.Toleration{Key: "dedicated", Value: "web", Effect: v1.TaintEffectNoExecute}, true},
		"other key":        {v1.Toleration{Key: "team", Value: "web"}, true},
		"exists":           {v1.Toleration{Key: "dedicated", Operator: v1.TolerationOpExists}, false},
		"everything":       {v1.Toleration{Operator: v1.TolerationOpExists}, false},
	} {
		if _, bad := fit.Untolerated([]v1.Taint{taint}, []v1.Toleration{c.t}, v1.TaintEffectNoSchedule); bad != c.bad {
			t.Errorf("%s: untolerated %v, want %v", name, bad, c.bad)
		}
	}
	other := v1.Taint{Key: "team", Effect: v1.TaintEffectNoExecute}
	own := v1.Toleration{Key: "dedicated", Value: "web"}
	for name, c := range map[string]struct {
		taints      []v1.Taint
		tolerations []v1.Toleration
		want        string // the key of the taint that is not tolerated
	}{
		"the second taint":       {[]v1.Taint{taint, other}, []v1.Toleration{own}, "team"},
		"the first taint":        {[]v1.Taint{other, taint}, []v1.Toleration{own}, "team"},
		"the second toleration":  {[]v1.Taint{taint}, []v1.Toleration{{Key: "team"}, own}, ""},
		"a toleration for each":  {[]v1.Taint{taint, other}, []v1.Toleration{{Key: "team"}, own}, ""},
		"no toleration":          {[]v1.Taint{taint, other}, nil, "dedicated"},
		"another effect's alone": {[]v1.Taint{{Key: "soft", Effect: v1.TaintEffectPreferNoSchedule}}, nil, ""},
		"another effect's, not tolerated": {[]v1.Taint{{Key: "soft", Effect: v1.TaintEffectPreferNoSchedule}},
			[]v1.Toleration{own, {Key: "soft", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule}}, ""},
		"an operator of no value": {[]v1.Taint{other}, []v1.Toleration{{Key: "team", Operator: "Like"}}, "team"},
	} {
		got, bad := fit.Untolerated(c.taints, c.tolerations, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute)
		if got.Key != c.want || bad != (c.want != "") {
			t.Errorf("%s: untolerated %q %v, want %q", name, got.Key, bad, c.want)
		}
	}
	if _, bad := fit.Untolerated([]v1.Taint{taint}, nil, v1.TaintEffectNoExecute); bad {
		t.Error("a taint of an effect not asked about does not count")
	}
}

func TestPortTaken(t *testing.T) {
	port := func(ip string, proto v1.Protocol, n int32) []v1.ContainerPort {
		return []v1.ContainerPort{{HostIP: ip, Protocol: proto, HostPort: n}}
	}
	for name, c := range map[string]struct {
		want, have []v1.ContainerPort
		taken      bool
	}{
		"same":           {port("", "", 80), port("0.0.0.0", "TCP", 80), true},
		"other protocol": {port("", "UDP", 80), port("", "TCP", 80), false},
		"other address":  {port("10.0.0.1", "", 80), port("10.0.0.2", "", 80), false},
		"one on all":     {port("10.0.0.1", "", 80), port("", "", 80), true},
		"no host port":   {port("", "", 0), port("", "", 0), false},
		"other number":   {port("", "", 80), port("", "", 81), false},
	} {
		if _, taken := fit.PortConflict(c.want, c.have); taken != c.taken {
			t.Errorf("%s: taken %v, want %v", name, taken, c.taken)
		}
	}
}

// row: FIL-02, FIL-03, FIL-04
func TestNodeMatches(t *testing.T) {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"a": "1", "cpus": "8"}}}
	req := func(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	affinity := func(terms ...v1.NodeSelectorTerm) *v1.Pod {
		return &v1.Pod{
			Spec: v1.PodSpec{
				Affinity: &v1.Affinity{
					NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
						NodeSelectorTerms: terms}}}}}
	}
	all := func(r ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: r}
	}
	for name, c := range map[string]struct {
		p    *v1.Pod
		want bool
	}{
		"selector, all labels": {&v1.Pod{Spec: v1.PodSpec{NodeSelector: map[string]string{"a": "1", "cpus": "8"}}},
			true},
		"selector, one missing": {&v1.Pod{Spec: v1.PodSpec{NodeSelector: map[string]string{"a": "1", "b": "2"}}},
			false},
		"In":           {affinity(all(req("a", v1.NodeSelectorOpIn, "0", "1"))), true},
		"NotIn":        {affinity(all(req("a", v1.NodeSelectorOpNotIn, "1"))), false},
		"Exists":       {affinity(all(req("b", v1.NodeSelectorOpExists))), false},
		"DoesNotExist": {affinity(all(req("b", v1.NodeSelectorOpDoesNotExist))), true},
		"Gt":           {affinity(all(req("cpus", v1.NodeSelectorOpGt, "4"))), true},
		"Lt":           {affinity(all(req("cpus", v1.NodeSelectorOpLt, "4"))), false},
		"terms are ORed": {affinity(all(req("b", v1.NodeSelectorOpExists)),
			all(req("a", v1.NodeSelectorOpExists))), true},
		"expressions are ANDed": {affinity(all(req("b", v1.NodeSelectorOpExists), req("a", v1.NodeSelectorOpExists))),
			false},
		"an empty term is no one": {affinity(all()), false},
	} {
		if got, err := fit.NodeMatches(c.p, n); err != nil || got != c.want {
			t.Errorf("%s: %v %v, want %v", name, got, err, c.want)
		}
	}
}

// Beyond an int64 a quantity's Value is anything, zero too: what is counted ends before.
func TestFiguresOutOfRangeAreCountedAsTheMost(t *testing.T) {
	for text, want := range map[string][2]int64{
		"1": {1000, 1}, "100m": {100, 1}, "-5": {-5000, -5}, "1T": {1e15, 1e12}, "1P": {fit.MaxValue, 1e15},
		"72P": {fit.MaxValue, 72e15}, "1E": {fit.MaxValue, fit.MaxValue}, "10E": {fit.MaxValue, fit.MaxValue},
		"1e30":                {fit.MaxValue, fit.MaxValue},
		"9223372036854775807": {fit.MaxValue, fit.MaxValue}, "9223372036854775808": {fit.MaxValue, fit.MaxValue},
		"18446744073709551617": {fit.MaxValue, fit.MaxValue}, "-10E": {-fit.MaxValue, -fit.MaxValue},
	} {
		q := resource.MustParse(text)
		v := fit.VectorOf(v1.ResourceList{v1.ResourceCPU: q, v1.ResourceMemory: q, "example.com/x": q})
		if v.MilliCPU != want[0] || v.Memory != want[1] || v.Scalar["example.com/x"] != want[1] {
			t.Errorf("%s: %d milli, %d, %d, want %d", text, v.MilliCPU, v.Memory, v.Scalar["example.com/x"], want)
		}
	}
}
