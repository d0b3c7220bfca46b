package networkpolicy

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/gantry-project/gantry/internal/networkpolicy/rules"
)

// Table is the instance's nftables table for policies. It exists only while there are policies. One
// goroutine at a time may use it.
type Table struct {
	nft     knftables.Interface
	current *rules.State // what is in force; nil: not known, or no table
}

// Open returns the table of that name without changing the kernel. It fails if the nft program is
// missing or too old.
func Open(name string) (*Table, error) {
	nft, err := knftables.New(knftables.InetFamily, name, knftables.UseNetlink)
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	return NewWithInterface(nft), nil
}

// NewWithInterface returns a table over nft. Tests pass knftables' fake.
func NewWithInterface(nft knftables.Interface) *Table { return &Table{nft: nft} }

// Set makes the table equal to want in one transaction: by the difference, or by replacing the
// table if that fails or the content is not known. After an error the earlier rules stay in force.
func (t *Table) Set(ctx context.Context, want rules.State) error {
	if t.current != nil {
		if err := t.Change(ctx, want); err == nil {
			return nil
		}
		t.current = nil
	}
	tx := t.nft.NewTransaction()
	replaceTable(tx, want)
	if err := t.nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("nftables refuses the policies: %w", err)
	}
	t.current = &want
	return nil
}

// Change applies only the difference to want, or calls Set if the content is not known. Set calls
// it first.
func (t *Table) Change(ctx context.Context, want rules.State) error {
	if t.current == nil {
		return t.Set(ctx, want)
	}
	ops := rules.Diff(*t.current, want)
	if len(ops) == 0 {
		return nil
	}
	tx := t.nft.NewTransaction()
	addOps(tx, ops)
	if err := t.nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("nftables refuses a change of policies: %w", err)
	}
	t.current = &want
	return nil
}

// Verify checks that the kernel still has as many chains as were written. If not it returns true,
// and the next Set replaces the table.
func (t *Table) Verify(ctx context.Context) (lost bool) {
	if t.current == nil {
		return false
	}
	names, err := t.nft.List(ctx, "chain")
	if err == nil && len(names) == len(t.current.Chains)+len(rules.Frame()) {
		return false
	}
	t.current = nil
	return true
}

// Remove deletes the table. It succeeds if there is none.
func (t *Table) Remove(ctx context.Context) error {
	tx := t.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	if err := t.nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("remove the table of network policies: %w", err)
	}
	t.current = nil
	return nil
}

// replaceTable replaces the whole table in the transaction. The kernel applies it atomically: no
// packet sees half a table.
func replaceTable(tx *knftables.Transaction, want rules.State) {
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	tx.Add(&knftables.Table{})
	for _, m := range []string{rules.Ingress4, rules.Egress4} {
		tx.Add(&knftables.Map{Name: m, Type: "ipv4_addr : verdict"})
	}
	for _, m := range []string{rules.Ingress6, rules.Egress6} {
		tx.Add(&knftables.Map{Name: m, Type: "ipv6_addr : verdict"})
	}
	addOps(tx, rules.Diff(rules.State{}, want))
	for _, c := range rules.Frame() {
		chain := &knftables.Chain{Name: c.Name}
		if c.Name == rules.Base {
			chain.Type, chain.Hook, chain.Priority = knftables.PtrTo(knftables.FilterType),
				knftables.PtrTo(knftables.ForwardHook), knftables.PtrTo(knftables.FilterPriority)
		}
		tx.Add(chain)
		for _, r := range c.Rules {
			tx.Add(&knftables.Rule{Chain: c.Name, Rule: r})
		}
	}
}

func addOps(tx *knftables.Transaction, ops []rules.Op) {
	for _, op := range ops {
		key := strings.Split(op.Key, " . ")
		switch op.Verb {
		case rules.AddSet:
			tx.Add(&knftables.Set{Name: op.Name, Type: op.Text})
		case rules.AddElement:
			tx.Add(&knftables.Element{Set: op.Name, Key: key})
		case rules.DeleteElement:
			tx.Delete(&knftables.Element{Set: op.Name, Key: key})
		case rules.AddChain:
			tx.Add(&knftables.Chain{Name: op.Name})
		case rules.AddRule:
			tx.Add(&knftables.Rule{Chain: op.Name, Rule: op.Text})
		case rules.AddPod:
			tx.Add(&knftables.Element{Map: op.Name, Key: key, Value: []string{op.Text}})
		case rules.DeletePod:
			tx.Delete(&knftables.Element{Map: op.Name, Key: key, Value: []string{op.Text}})
		case rules.DeleteChain:
			tx.Delete(&knftables.Chain{Name: op.Name})
		case rules.DeleteSet:
			tx.Delete(&knftables.Set{Name: op.Name})
		}
	}
}
