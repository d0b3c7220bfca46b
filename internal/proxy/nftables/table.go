package nftables

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/knftables"

	"github.com/gantry-project/gantry/internal/proxy/nftables/nfnetlink"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// Limits of operations per transaction. nft lists the table anew for each transaction, so few large
// ones are better; with netlink small ones cost little and large ones much memory.
const maxOperations, maxNetlinkOperations = 20000, 2000

// affinitySize is how many clients one endpoint's affinity set holds.
const affinitySize = 65535

// Table is one nftables table of the proxy. Its frame is made by the program nft, everything else
// over netlink where netlink can encode it. Only Listening and the listener's callback are safe for
// concurrent use.
type Table struct {
	nft          knftables.Interface
	frame        rules.TableFrame
	netlinkTable *nfnetlink.Table // nil: use nft for everything
	listener     changeListener
	counts       TransactionCounts
}

// TransactionCounts counts transactions by how they reached the kernel.
type TransactionCounts struct{ Netlink, Nft int }

// TransactionCounts returns the number of transactions since the table was opened.
func (t *Table) TransactionCounts() TransactionCounts { return t.counts }

// Open returns the table of the given family and name without changing the kernel; line is the
// netlink connection that tables share. It fails if the nft program is missing or too old.
func Open(line *nfnetlink.Conn, family rules.Family, name string, frame rules.TableFrame) (*Table, error) {
	nft, err := knftables.New(knftables.Family(family), name, knftables.UseNetlink)
	if err != nil {
		return nil, fmt.Errorf("nftables, family %s: %w", family, err)
	}
	t := NewWithInterface(nft, frame)
	if t.netlinkTable, err = nfnetlink.Open(line, family, name, frame); err != nil {
		return nil, fmt.Errorf("netlink, family %s: %w", family, err)
	}
	return t, nil
}

// NewWithInterface returns a table that uses nft for everything. Tests pass knftables' fake.
func NewWithInterface(nft knftables.Interface, frame rules.TableFrame) *Table {
	return &Table{nft: nft, frame: frame}
}

// Close closes the netlink connection. The kernel's table stays.
func (t *Table) Close() {
	if t.netlinkTable != nil {
		t.netlinkTable.Close()
	}
}

// EnsureFrame creates the table's frame or replaces its rules in one transaction; chains and
// elements of Services stay. A table that cannot be changed that way, such as one of an older
// version, is deleted and created anew; established connections survive, because conntrack keeps
// them.
func (t *Table) EnsureFrame(ctx context.Context) error {
	tx := t.nft.NewTransaction()
	t.addFrame(tx)
	if err := t.runNft(ctx, tx); err == nil {
		return nil
	}
	tx = t.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	t.addFrame(tx)
	if err := t.runNft(ctx, tx); err != nil {
		return fmt.Errorf("nftables refuses the frame: %w", oneLine(err))
	}
	return nil
}

func (t *Table) addFrame(tx *knftables.Transaction) {
	tx.Add(&knftables.Table{})
	for _, d := range t.frame.Sets {
		if d.IsMap {
			tx.Add(&knftables.Map{Name: d.Name, Type: d.Type})
		} else {
			tx.Add(&knftables.Set{Name: d.Name, Type: d.Type})
		}
	}
	bases := map[string]rules.BaseChain{}
	for _, b := range t.frame.BaseChains {
		bases[b.Chain] = b
	}
	for _, c := range t.frame.Chains {
		chain := &knftables.Chain{Name: c.Name}
		if b, ok := bases[c.Name]; ok {
			chain.Type, chain.Hook = knftables.PtrTo(knftables.BaseChainType(b.Type)),
				knftables.PtrTo(knftables.BaseChainHook(b.Hook))
			chain.Priority = knftables.PtrTo(knftables.BaseChainPriority(b.Priority))
		}
		tx.Add(chain)
		tx.Flush(&knftables.Chain{Name: c.Name})
	}
	for _, c := range t.frame.Chains {
		for _, r := range c.Rules {
			tx.Add(&knftables.Rule{Chain: c.Name, Rule: r})
		}
	}
}

// RefusedError is a unit that the kernel refused.
type RefusedError struct {
	Unit rules.Unit
	Err  error
}

// Error names the refused object and the kernel's reason.
func (r *RefusedError) Error() string {
	return fmt.Sprintf("nftables refuses %s %s: %v", r.Unit[0].Verb, r.Unit[0].Name, r.Err)
}

// Apply runs units in as few transactions as the operation limit allows. After an error none or
// some of them have been applied.
func (t *Table) Apply(ctx context.Context, units []rules.Unit) error {
	limit := maxOperations
	if t.netlinkTable != nil {
		limit = maxNetlinkOperations
	}
	for len(units) > 0 {
		n, ops := 0, 0
		for n < len(units) && (n == 0 || ops+len(units[n]) <= limit) {
			ops += len(units[n])
			n++
		}
		if err := t.run(ctx, units[:n]); err != nil {
			return err
		}
		units = units[n:]
	}
	return nil
}

// ApplyEach applies what the kernel accepts, halving each refused transaction, and returns the
// units that were refused on their own.
func (t *Table) ApplyEach(ctx context.Context, units []rules.Unit) []*RefusedError {
	if len(units) == 0 || ctx.Err() != nil {
		return nil
	}
	err := t.run(ctx, units)
	if err == nil {
		return nil
	}
	if len(units) == 1 {
		return []*RefusedError{{units[0], err}}
	}
	half := len(units) / 2
	return append(t.ApplyEach(ctx, units[:half]), t.ApplyEach(ctx, units[half:])...)
}

func (t *Table) run(ctx context.Context, units []rules.Unit) error {
	if t.netlinkTable != nil {
		if err := t.netlinkTable.Send(slices.Concat(units...)); err == nil {
			t.counts.Netlink++
			return nil
		}
		// netlink cannot encode it or the kernel refused it. nft applies it, or returns a readable
		// reason.
	}
	if err := t.runNft(ctx, t.transaction(units)); err != nil {
		return oneLine(err)
	}
	return nil
}

// DryRun returns the error with which the kernel would refuse units; nothing is changed.
func (t *Table) DryRun(ctx context.Context, units []rules.Unit) error {
	return t.nft.Check(ctx, t.transaction(units))
}

func (t *Table) transaction(units []rules.Unit) *knftables.Transaction {
	tx := t.nft.NewTransaction()
	for _, u := range units {
		for _, op := range u {
			t.add(tx, op)
		}
	}
	return tx
}

func (t *Table) add(tx *knftables.Transaction, op rules.Op) {
	switch op.Verb {
	case rules.AddAffinity:
		// The name encodes the content, so a set of that name is already the right one.
		tx.Add(&knftables.Set{Name: op.Name, Type: t.addressType(), Flags: []knftables.SetFlag{knftables.DynamicFlag,
			knftables.TimeoutFlag},
			Timeout: knftables.PtrTo(time.Duration(op.Timeout) * time.Second),
			Size:    knftables.PtrTo(uint64(affinitySize))})
	case rules.AddChain:
		tx.Add(&knftables.Chain{Name: op.Name})
		tx.Flush(&knftables.Chain{Name: op.Name}) // it may be left over from the transaction that this one repeats
	case rules.AddRule:
		tx.Add(&knftables.Rule{Chain: op.Name, Rule: op.Text})
	case rules.AddElement:
		tx.Add(t.element(op))
	case rules.DeleteElement:
		tx.Delete(t.element(op))
	case rules.DeleteChain:
		tx.Delete(&knftables.Chain{Name: op.Name})
	case rules.DeleteAffinity:
		tx.Delete(&knftables.Set{Name: op.Name})
	}
}

func (t *Table) element(op rules.Op) *knftables.Element {
	e := &knftables.Element{Key: strings.Split(op.Key, " . ")}
	if op.Text == "" {
		e.Set = op.Name
	} else {
		e.Map, e.Value = op.Name, []string{op.Text}
	}
	return e
}

// addressType returns the nftables type of addresses: that of the set of cluster IPs.
func (t *Table) addressType() string {
	for _, d := range t.frame.Sets {
		if !d.IsMap && !strings.Contains(d.Type, " ") {
			return d.Type
		}
	}
	return ""
}

// Remove deletes the table. It succeeds if there is none.
func (t *Table) Remove(ctx context.Context) error {
	tx := t.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	if err := t.runNft(ctx, tx); err != nil {
		return fmt.Errorf("remove the proxy's table: %w", oneLine(err))
	}
	return nil
}

// oneLine reduces nft's answer to its first error line.
func oneLine(err error) error {
	text := err.Error()
	for line := range strings.Lines(text) {
		if strings.Contains(line, "Error:") {
			return fmt.Errorf("%s", strings.TrimSpace(line))
		}
	}
	return fmt.Errorf("%s", strings.Join(strings.Fields(text), " "))
}
