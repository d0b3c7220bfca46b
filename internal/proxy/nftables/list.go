package nftables

import (
	"context"
	"fmt"
	"strings"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// List returns what Services have in the table: chains by name without their rules, sets, and
// elements. A chain of want that another program changed, or whose number of uses differs from
// want, counts as absent, so that the caller makes it anew. It costs one netlink dump, or one run
// of nft per object type.
func (t *Table) List(ctx context.Context, want rules.State) (rules.State, error) {
	if t.netlinkTable == nil {
		return t.listNft(ctx)
	}
	out := rules.NewState()
	l, err := t.netlinkTable.List()
	if err != nil {
		return out, err
	}
	uses := rules.ChainUses(want)
	for name, n := range l.ChainUses {
		should, wanted := uses[name]
		if rules.IsServiceObject(name) && !(wanted && (t.listener.modified[name] || n != should)) {
			out.Chains[name] = nil
		}
	}
	for _, n := range l.Sets {
		if rules.IsServiceObject(n) {
			out.Affinity[n] = 0
		}
	}
	out.Elements = l.Elements
	return out, nil
}

// listNft reads with the program nft what the table holds for Services: names of chains and sets,
// and all elements of the frame's sets and maps.
func (t *Table) listNft(ctx context.Context) (rules.State, error) {
	out := rules.NewState()
	names, err := t.nft.List(ctx, "chain")
	if err != nil {
		return out, fmt.Errorf("list chains: %w", oneLine(err))
	}
	for _, n := range names {
		if rules.IsServiceObject(n) {
			out.Chains[n] = nil
		}
	}
	if names, err = t.nft.List(ctx, "set"); err != nil {
		return out, fmt.Errorf("list sets: %w", oneLine(err))
	}
	for _, n := range names {
		if rules.IsServiceObject(n) {
			out.Affinity[n] = 0
		}
	}
	for _, d := range t.frame.Sets {
		kind := "set"
		if d.IsMap {
			kind = "map"
		}
		elements, err := t.nft.ListElements(ctx, kind, d.Name)
		if err != nil {
			return out, fmt.Errorf("list %s: %w", d.Name, oneLine(err))
		}
		for _, e := range elements {
			out.Elements[rules.Element{Set: d.Name, Key: strings.Join(e.Key, " . ")}] = strings.Join(e.Value, " . ")
		}
	}
	return out, nil
}

// Intact reports whether the table has its frame's chains and exactly the given chains of Services,
// by name. It costs one listing of chains.
func (t *Table) Intact(ctx context.Context, chains map[string][]string) bool {
	names, err := t.nft.List(ctx, "chain")
	if err != nil || len(names) != len(chains)+len(t.frame.Chains) {
		return false
	}
	for _, n := range names {
		if _, ok := chains[n]; !ok && rules.IsServiceObject(n) {
			return false
		}
	}
	return true
}
