package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// plain computes the desired state from what all owners want.
func plain(wants map[rules.Owner]rules.State) rules.State {
	owners := []rules.Owner{}
	for o := range wants {
		owners = append(owners, o)
	}
	slices.SortFunc(owners, func(a, b rules.Owner) int {
		return strings.Compare(fmt.Sprintf("%03d %s", a.Created, a.Name), fmt.Sprintf("%03d %s", b.Created, b.Name))
	})
	out := rules.NewState()
	for _, o := range owners {
		out.Add(wants[o])
	}
	return out
}

// Whatever owners are added, change and are removed, and whatever they claim of each other's: the
// state is that of the oldest claim of each element, and each answer leads from the former to the
// new state.
func TestDesiredStateIsThatOfTheOldestClaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, wants, is := rules.NewDesiredState(), map[rules.Owner]rules.State{}, rules.NewState()
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			n := rapid.IntRange(0, 4).Draw(t, "owner")
			o := rules.Owner{Name: fmt.Sprintf("default/s%d", n), Created: int64(n * 7 % 3)}
			state := rules.NewState()
			for _, k := range rapid.SliceOfN(rapid.IntRange(0, 5), 0, 4).Draw(t, "elements") {
				state.Elements[rules.Element{Set: "service-ips", Key: fmt.Sprintf("10.0.0.%d . tcp . 80", k)}] =
					rapid.SampledFrom([]string{"", "drop", fmt.Sprintf("goto choose-%d", n)}).Draw(t, "verdict")
			}
			for _, k := range rapid.SliceOfN(rapid.IntRange(0, 2), 0, 2).Draw(t, "chains") {
				state.Chains[fmt.Sprintf("service-%d-s%d", k, n)] = [][]string{nil, {"a"}, {"a", ""}}[k]
				state.Affinity[fmt.Sprintf("affinity-%d-s%d", k, n)] = int32(k * 10800)
			}
			was, now := b.Set(o, state)
			if delete(wants, o); len(state.Elements)+len(state.Chains)+len(state.Affinity) > 0 {
				wants[o] = state
			}
			for e, v := range was.Elements {
				if got, there := is.Elements[e]; !there || got != v {
					t.Fatalf("was %q at %v, but it was %q (%v)", v, e, got, there)
				}
				delete(is.Elements, e)
			}
			for name := range was.Chains {
				delete(is.Chains, name)
			}
			for name := range was.Affinity {
				delete(is.Affinity, name)
			}
			is.Add(now)
			if diff := cmp.Diff(plain(wants), is); diff != "" {
				t.Fatalf("the answers come to something else than is wanted (-want +got):\n%s", diff)
			}
			all := b.All()
			if len(rules.Delta(all, is))+len(rules.Delta(is, all)) > 0 || rules.OwnerCount(b) != len(wants) {
				t.Fatalf("the book has\n%v\nwant\n%v", all, is)
			}
			for name, chain := range is.Chains {
				if !slices.Equal(all.Chains[name], chain) {
					t.Fatalf("chain %s is %q, want %q", name, all.Chains[name], chain)
				}
			}
		}
	})
}
