package topologymanager_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/topologymanager"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/test/wrappers"
)

type hint = topologymanager.Hint

func mask(nodes ...int) topologymanager.Mask { return topologymanager.MaskOf(nodes...) }

func TestMask(t *testing.T) {
	if _, err := topologymanager.NewMask(0, 64); err == nil {
		t.Error("NewMask(0, 64): got no error, want one")
	}
	if m, err := topologymanager.NewMask(0, 63); err != nil || !slices.Equal(m.Bits(), []int{0, 63}) {
		t.Errorf("NewMask(0, 63): got %v and error %v, want 0,63", m, err)
	}
	var got []string
	for m := range topologymanager.Masks([]int{0, 1, 3}) {
		got = append(got, m.String())
	}
	if want := "0 1 3 0,1 0,3 1,3 0,1,3"; strings.Join(got, " ") != want {
		t.Errorf("sets of 0, 1 and 3: got %v, want %s", got, want)
	}
	if got, want := []bool{
		mask(0, 1).IsNarrowerThan(mask(0, 2)), mask(3).IsNarrowerThan(mask(0, 1)), mask(1).IsNarrowerThan(mask(1)),
	}, []bool{true, true, false}; !slices.Equal(got, want) {
		t.Errorf("IsNarrowerThan: got another order than by size and then by number: got %v, want %v", got, want)
	}
}

// row: DEV-07
func TestMergeHints(t *testing.T) {
	two := topologymanager.NUMAInfo{Nodes: []int{0, 1}}
	near := topologymanager.NUMAInfo{Nodes: []int{0, 1, 2, 3}, Distances: map[int][]uint64{
		0: {10, 30, 20, 30}, 1: {30, 10, 30, 12}, 2: {20, 30, 10, 30}, 3: {30, 12, 30, 10}}}
	for _, c := range []struct {
		name    string
		numa    topologymanager.NUMAInfo
		closest bool
		hints   [][]hint
		want    hint
	}{
		{"nobody has a wish", two, false, [][]hint{{{0, true}}, {{0, true}}}, hint{mask(0, 1), true}},
		{"one cannot be had", two, false, [][]hint{{{mask(0), true}}, {{0, false}}}, hint{mask(0), false}},
		{"both agree on 1", two, false, [][]hint{{{mask(0), true}, {mask(1), true}}, {{mask(1), true}}},
			hint{mask(1), true}},
		{"they are apart", two, false, [][]hint{{{mask(0), true}, {mask(0, 1), false}}, {{mask(1), true}}},
			hint{mask(1), false}},
		{"nothing is shared", two, false, [][]hint{{{mask(0), true}}, {{mask(1), true}}}, hint{mask(0, 1), false}},
		{"not more nodes than needed", two, false, [][]hint{{{mask(0), false}, {mask(1), false}, {mask(0, 1), false}}},
			hint{mask(0), false}},
		{"as many as the neediest", two, false, [][]hint{{{mask(0, 1), false}}, {{mask(0), true}, {mask(0, 1), false}}},
			hint{mask(0, 1), false}},
		{"narrowest by number", near, false, [][]hint{{{mask(0, 1), true}, {mask(0, 2), true}, {mask(1, 3), true}}},
			hint{mask(0, 1), true}},
		{"closest", near, true, [][]hint{{{mask(0, 1), true}, {mask(0, 2), true}, {mask(1, 3), true}}},
			hint{mask(1, 3), true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := topologymanager.Merge(c.hints, c.numa, c.closest); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// provider answers with fixed hints and notes what is allocated.
type provider struct {
	hints     map[string][]hint
	pod       map[string][]hint
	fails     error
	allocated []string
	released  int
}

func (p *provider) GetTopologyHints(*v1.Pod, *v1.Container) map[string][]hint { return p.hints }
func (p *provider) GetPodTopologyHints(*v1.Pod) map[string][]hint             { return p.pod }
func (p *provider) Release(*v1.Pod)                                           { p.released++ }
func (p *provider) Allocate(_ *v1.Pod, c *v1.Container) error {
	p.allocated = append(p.allocated, c.Name)
	return p.fails
}

func pod() *v1.Pod {
	return wrappers.MakePod().UID("u").InitContainers(v1.Container{Name: "i"}).
		Containers(v1.Container{Name: "a"}, v1.Container{Name: "b"}).Obj()
}

func TestAdmitByPolicy(t *testing.T) {
	aligned := &provider{hints: map[string][]hint{"cpu": {{mask(1), true}}},
		pod: map[string][]hint{"cpu": {{mask(0), true}}}}
	split := map[string][]hint{"x": {{mask(0, 1), true}}}
	none := map[string][]hint{"x": {}}
	for _, c := range []struct {
		policy, scope string
		hints         map[string][]hint
		err           error
		code, detail  string
		affinity      hint
		allocated     string
	}{
		// row: DEV-07
		{"single-numa-node", "container", split, nil, "TopologyAffinityError",
			"Resources cannot be allocated with Topology locality", hint{}, ""},
		{"single-numa-node", "pod", split, nil, "TopologyAffinityError",
			"Resources cannot be allocated with Topology locality", hint{}, ""},
		{"restricted", "container", split, nil, "TopologyAffinityError",
			"Resources cannot be allocated with Topology locality", hint{}, ""},
		{"restricted", "pod", none, nil, "TopologyAffinityError",
			"Resources cannot be allocated with Topology locality", hint{}, ""},
		{"best-effort", "container", split, nil, "", "", hint{mask(1), false}, "i a b"},
		{"none", "container", split, nil, "", "", hint{}, "i a b"},
		{"single-numa-node", "container", nil, nil, "", "", hint{mask(1), true}, "i a b"},
		{"single-numa-node", "pod", nil, nil, "", "", hint{mask(0), true}, "i a b"},
		{"none", "container", nil, errors.New("not enough"), "UnexpectedAdmissionError",
			"Allocate failed due to not enough, which is unexpected", hint{}, "i"},
		{"restricted", "container", nil, &reason.Refusal{Code: "SMTAlignmentError", Detail: "d"}, "SMTAlignmentError",
			"d",
			hint{}, "i"},
	} {
		t.Run(c.policy+" "+c.scope+" "+c.code, func(t *testing.T) {
			m, err := topologymanager.New(topologymanager.Config{Policy: c.policy, Scope: c.scope},
				topologymanager.NUMAInfo{Nodes: []int{0, 1}})
			if err != nil {
				t.Fatal(err)
			}
			first := *aligned
			second := &provider{hints: c.hints, pod: c.hints, fails: c.err}
			m.AddHintProvider(&first)
			m.AddHintProvider(second)
			refusal := m.Admit(pod())
			switch {
			case refusal == nil && c.code != "":
				t.Fatalf("got it let in, want %s", c.code)
			case refusal != nil && (string(refusal.Code) != c.code || refusal.Detail != c.detail):
				t.Fatalf("got %s: %q, want %s: %q", refusal.Code, refusal.Detail, c.code, c.detail)
			}
			if got := strings.Join(second.allocated, " "); got != c.allocated {
				t.Errorf("allocated: got %q, want %q", got, c.allocated)
			}
			if got := m.GetAffinity("u", "a"); got != c.affinity {
				t.Errorf("affinity of a: got %v, want %v", got, c.affinity)
			}
			m.Release(pod())
			if got := m.GetAffinity("u", "a"); got != (hint{}) || first.released != 1 {
				t.Errorf("after Release: got affinity %v and %d calls, want none and 1", got, first.released)
			}
		})
	}
}

func TestRefusedConfigurations(t *testing.T) {
	nine := topologymanager.NUMAInfo{Nodes: []int{0, 1, 2, 3, 4, 5, 6, 7, 8}}
	two := topologymanager.NUMAInfo{Nodes: []int{0, 1}}
	for _, c := range []struct {
		policy, scope string
		options       map[string]string
		numa          topologymanager.NUMAInfo
		want          string
	}{
		{"none", "", map[string]string{"x": "y"}, nine, ""},
		{"best", "container", nil, two, `unknown policy: "best"`},
		{"restricted", "node", nil, two, `unknown scope: "node"`},
		{"restricted", "pod", nil, nine, "unsupported on machines with more than 8 NUMA Nodes"},
		{"restricted", "pod", map[string]string{"max-allowable-numa-nodes": "9"}, nine, ""},
		{"restricted", "pod", map[string]string{"max-allowable-numa-nodes": "7"}, two,
			`the minimum value of "max-allowable-numa-nodes" should not be less than 8`},
		{"restricted", "pod", map[string]string{"max-allowable-numa-nodes": "many"}, two,
			`unable to convert policy option to integer "max-allowable-numa-nodes": strconv.Atoi: parsing "many": ` +
				`invalid syntax`},
		{"restricted", "pod", map[string]string{"prefer-closest-numa-nodes": "perhaps"}, two,
			`bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing "perhaps": invalid syntax`},
		{"restricted", "pod", map[string]string{"nearest": "true"}, two,
			`unknown Topology Manager Policy option: "nearest"`},
		{"restricted", "pod", map[string]string{"prefer-closest-numa-nodes": "true"}, two,
			"cannot discover NUMA topology: no distances of NUMA node 0"},
	} {
		_, err := topologymanager.New(topologymanager.Config{Policy: c.policy, Scope: c.scope, Options: c.options},
			c.numa)
		if got := errors.Join(err); (got == nil) != (c.want == "") || got != nil && got.Error() != c.want {
			t.Errorf("%s, %s, %v: got %v, want %q", c.policy, c.scope, c.options, got, c.want)
		}
	}
}
