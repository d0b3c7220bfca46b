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

// maxOperations is how many operations one transaction has. The program nft reads all that the
// kernel has for each, so that few are better; by netlink many cost little, and large ones much
// memory.
const maxOperations, maxNetlinkOperations = 20000, 2000

// affinitySize is how many clients one endpoint remembers.
const affinitySize = 65535

// Table is one nftables table of the proxy. Its frame is made by the program nft, all else over
// netlink where that knows the words.
type Table struct {
	nft          knftables.Interface
	frame        rules.TableFrame
	netlinkTable *nfnetlink.Table // nil: nft does everything
	listener     changeListener
	counts       TransactionCounts
}

// TransactionCounts counts transactions by how they came into the kernel.
type TransactionCounts struct{ Netlink, Nft int }

// TransactionCounts is how many transactions went which way since the table was opened.
func (t *Table) TransactionCounts() TransactionCounts { return t.counts }

// Open prepares the table of that family and name, which shares its line with others; nothing
// changes in the kernel yet. It fails when the nft program is missing or too old.
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

// NewWithInterface uses an interface of the caller's, such as knftables' fake, for everything.
func NewWithInterface(nft knftables.Interface, frame rules.TableFrame) *Table {
	return &Table{nft: nft, frame: frame}
}

// Close lets go of the line's socket; what is in the kernel stays.
func (t *Table) Close() {
	if t.netlinkTable != nil {
		t.netlinkTable.Close()
	}
}

// EnsureFrame makes the frame, or makes it anew in one transaction, and keeps what Services have. A
// table that is too different, as an older version may leave it, is replaced: connections that
// exist stay, the kernel remembers them elsewhere.
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

// RefusedError is a unit the kernel would not take.
type RefusedError struct {
	Unit rules.Unit
	Err  error
}

// Error names what was refused.
func (r *RefusedError) Error() string {
	return fmt.Sprintf("nftables refuses %s %s: %v", r.Unit[0].Verb, r.Unit[0].Name, r.Err)
}

// Apply carries units out, all in one transaction where their number allows. An error means that
// none or only some were taken.
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

// ApplyEach takes what can be taken: a refused transaction is halved, and its halves again. It
// returns what was refused alone.
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
		// What netlink has no words for, or is refused: nft says it, or why not, in a person's
		// words.
	}
	if err := t.runNft(ctx, t.transaction(units)); err != nil {
		return oneLine(err)
	}
	return nil
}

// DryRun asks the kernel whether it would take units, without doing anything.
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
		// Named by what it holds, so one that is there already is the same.
		tx.Add(&knftables.Set{Name: op.Name, Type: t.addressType(), Flags: []knftables.SetFlag{knftables.DynamicFlag,
			knftables.TimeoutFlag},
			Timeout: knftables.PtrTo(time.Duration(op.Timeout) * time.Second),
			Size:    knftables.PtrTo(uint64(affinitySize))})
	case rules.AddChain:
		tx.Add(&knftables.Chain{Name: op.Name})
		tx.Flush(&knftables.Chain{Name: op.Name}) // one left by a transaction that this one repeats
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

// addressType is that of the set of cluster IPs.
func (t *Table) addressType() string {
	for _, d := range t.frame.Sets {
		if !d.IsMap && !strings.Contains(d.Type, " ") {
			return d.Type
		}
	}
	return ""
}

// Remove takes the table away. One that is not there is no error.
func (t *Table) Remove(ctx context.Context) error {
	tx := t.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	if err := t.runNft(ctx, tx); err != nil {
		return fmt.Errorf("remove the proxy's table: %w", oneLine(err))
	}
	return nil
}

// oneLine is nft's answer without its pictures of the place.
func oneLine(err error) error {
	text := err.Error()
	for line := range strings.Lines(text) {
		if strings.Contains(line, "Error:") {
			return fmt.Errorf("%s", strings.TrimSpace(line))
		}
	}
	return fmt.Errorf("%s", strings.Join(strings.Fields(text), " "))
}
