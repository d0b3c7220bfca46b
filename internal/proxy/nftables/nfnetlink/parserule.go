package nfnetlink

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// Registers: the first of sixteen bytes, the second, and the first of four bytes after an address
// in the first.
const (
	reg      = unix.NFT_REG_1
	reg2     = unix.NFT_REG_2
	afterIP4 = unix.NFT_REG32_01
	afterIP6 = unix.NFT_REG32_04
)

// parsedRule is a rule read from its text: expressions, of which some look up sets of the rule's
// own.
type parsedRule struct {
	list     []expr.Any
	anonSets []anonSet
}

// anonSet is a set of a rule's own: a map from 0, 1, … to verdicts or to addresses with ports, or
// ranges of addresses.
type anonSet struct {
	verdicts []verdict
	values   [][]byte
	ranges   []netip.Prefix // sorted, apart
	lookup   *expr.Lookup
}

// exprs are the expressions; the last of the rule's sets has the given number in the batch.
func (l *parsedRule) exprs(last uint32) []expr.Any {
	for i := range l.anonSets {
		l.anonSets[i].lookup.SetID = last - uint32(len(l.anonSets)-1-i)
	}
	return l.list
}

func (l *parsedRule) add(e ...expr.Any) { l.list = append(l.list, e...) }

// ruleReader goes through a rule's words.
type ruleReader struct {
	tokens []string
	parsedRule
}

// accept takes the next words when they are these.
func (r *ruleReader) accept(tokens ...string) bool {
	if len(r.tokens) < len(tokens) {
		return false
	}
	for i, w := range tokens {
		if r.tokens[i] != w {
			return false
		}
	}
	r.tokens = r.tokens[len(tokens):]
	return true
}

// next takes the next word, empty at the end.
func (r *ruleReader) next() string {
	if len(r.tokens) == 0 {
		return ""
	}
	w := r.tokens[0]
	r.tokens = r.tokens[1:]
	return w
}

// parse reads a rule. It knows what package rules writes for Services, and refuses all else.
func (t *Table) parse(in string) (*parsedRule, error) {
	r := &ruleReader{tokens: strings.Fields(in)}
	for len(r.tokens) > 0 {
		if err := t.statement(r); err != nil {
			return nil, err
		}
	}
	return &r.parsedRule, nil
}

func (t *Table) statement(r *ruleReader) error {
	ip := string(t.family)
	switch {
	case r.accept("meta", "l4proto"):
		n, err := protocol(r.next())
		if err != nil {
			return err
		}
		r.add(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg},
			&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: []byte{n}})
	case r.accept("iifname"):
		return r.iifname()
	case r.accept(ip, "daddr"):
		r.add(t.address(false))
		return t.compareAddress(r)
	case r.accept(ip, "saddr"):
		r.add(t.address(true))
		return t.compareAddress(r)
	case r.accept("fib", "saddr", "type", "local"):
		r.add(&expr.Fib{Register: reg, FlagSADDR: true, ResultADDRTYPE: true},
			&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: nativeUint32(unix.RTN_LOCAL)})
	case r.accept("numgen", "random", "mod"):
		return t.numgen(r)
	case r.accept("dnat", "to"):
		return t.dnat(r)
	case r.accept("dnat", ip, "addr", ".", "port", "to", "numgen", "random", "mod"):
		return t.dnatMap(r)
	case r.accept("update"):
		return t.updateSet(r)
	default:
		v, err := verdictOf(strings.Join(r.tokens, " "))
		if err != nil {
			return err
		}
		r.tokens = nil
		r.add(&v.Verdict)
	}
	return nil
}

// address loads the packet's source or destination.
func (t *Table) address(source bool) expr.Any {
	p := &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4}
	if t.family == rules.IPv6 {
		p.Offset, p.Len = 24, 16
	}
	if source {
		p.Offset -= p.Len
	}
	return p
}

// compareAddress holds a loaded address against one, or against a set.
func (t *Table) compareAddress(r *ruleReader) error {
	op := expr.CmpOpEq
	if r.accept("!=") {
		op = expr.CmpOpNeq
	}
	w := r.next()
	if set, ok := strings.CutPrefix(w, "@"); ok && op == expr.CmpOpEq {
		r.add(&expr.Lookup{SourceRegister: reg, SetName: set})
		return nil
	}
	if w == "{" {
		if len(r.tokens) < 2 || r.tokens[1] != "}" {
			return t.compareRanges(r, op == expr.CmpOpNeq)
		}
		w = r.next() // one range alone
		r.next()
	}
	p, err := prefix(w)
	if err != nil || !t.family.Has(p.Addr()) {
		return ErrUnknown
	}
	data := p.Masked().Addr().AsSlice()
	if p.Bits() < len(data)*8 {
		mask := make([]byte, len(data))
		for i := range p.Bits() {
			mask[i/8] |= 0x80 >> (i % 8)
		}
		r.add(&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: uint32(len(data)), Mask: mask,
			Xor: make([]byte, len(data))})
	}
	r.add(&expr.Cmp{Op: op, Register: reg, Data: data})
	return nil
}

// compareRanges holds a loaded address against several ranges, up to the closing brace.
func (t *Table) compareRanges(r *ruleReader, none bool) error {
	n := anonSet{lookup: &expr.Lookup{SourceRegister: reg, SetName: anonymousSet, Invert: none}}
	for w := r.next(); w != "}"; w = r.next() {
		p, err := prefix(strings.TrimSuffix(w, ","))
		if err != nil || !t.family.Has(p.Addr()) || p.Bits() == 0 || len(n.ranges) == maxMapItems {
			return ErrUnknown
		}
		if k := len(n.ranges); k > 0 && !addressAfter(n.ranges[k-1]).Less(p.Addr()) {
			return ErrUnknown // ranges side by side are one in nft's view
		}
		n.ranges = append(n.ranges, p)
	}
	r.anonSets = append(r.anonSets, n)
	r.add(n.lookup)
	return nil
}

// addressAfter is the first address after a range; invalid where there is none.
func addressAfter(p netip.Prefix) netip.Addr {
	last := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(last)
	return a.Next()
}

// prefix reads a range or an address.
func prefix(in string) (netip.Prefix, error) {
	if strings.Contains(in, "/") {
		return netip.ParsePrefix(in)
	}
	a, err := netip.ParseAddr(in)
	if err != nil {
		return netip.Prefix{}, err
	}
	return a.Prefix(a.BitLen())
}

// iifname compares the interface a packet comes from; a star at the end stands for anything.
func (r *ruleReader) iifname() error {
	op := expr.CmpOpEq
	if r.accept("!=") {
		op = expr.CmpOpNeq
	}
	name, err := strconv.Unquote(r.next())
	if err != nil || name == "" || name == "*" || len(name) >= unix.IFNAMSIZ {
		return ErrUnknown
	}
	data, begins := []byte(name), strings.HasSuffix(name, "*")
	if begins {
		data = data[:len(data)-1]
	} else {
		data = append(data, make([]byte, unix.IFNAMSIZ-len(data))...)
	}
	r.add(&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg}, &expr.Cmp{Op: op, Register: reg, Data: data})
	return nil
}

// numgen is a random number that must be a given one, or chooses a verdict.
func (t *Table) numgen(r *ruleReader) error {
	mod, err := strconv.ParseUint(r.next(), 10, 31)
	if err != nil || mod == 0 {
		return ErrUnknown
	}
	r.add(&expr.Numgen{Register: reg, Modulus: uint32(mod), Type: unix.NFT_NG_RANDOM})
	if !r.accept("vmap", "{") {
		n, err := strconv.ParseUint(r.next(), 10, 31)
		if err != nil {
			return ErrUnknown
		}
		r.add(&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: nativeUint32(uint32(n))})
		return nil
	}
	items, err := r.mapItems(int(mod))
	if err != nil {
		return err
	}
	m := anonSet{lookup: &expr.Lookup{SourceRegister: reg, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true,
		SetName: anonymousMap}}
	for _, item := range items {
		v, err := verdictOf(item)
		if err != nil {
			return err
		}
		m.verdicts = append(m.verdicts, v)
	}
	r.anonSets = append(r.anonSets, m)
	r.add(m.lookup)
	return nil
}

// maxMapItems is how many elements a rule's own map may have here: one attribute, of 64 KiB at
// most, holds them all.
const maxMapItems = 500

// mapItems are what the numbers of a map lead to: "0 : x, 1 : y }".
func (r *ruleReader) mapItems(n int) ([]string, error) {
	if n > maxMapItems || len(r.tokens) == 0 || r.tokens[len(r.tokens)-1] != "}" {
		return nil, ErrUnknown
	}
	all := strings.Split(strings.Join(r.tokens[:len(r.tokens)-1], " "), ",")
	r.tokens = nil
	if len(all) != n {
		return nil, ErrUnknown
	}
	for i := range all {
		rest, ok := strings.CutPrefix(strings.TrimSpace(all[i]), strconv.Itoa(i)+" : ")
		if !ok {
			return nil, ErrUnknown
		}
		all[i] = strings.TrimSpace(rest)
	}
	return all, nil
}

// dnat leads to one address and port.
func (t *Table) dnat(r *ruleReader) error {
	to, err := netip.ParseAddrPort(r.next())
	if err != nil || !t.family.Has(to.Addr()) || to.Addr().Zone() != "" {
		return ErrUnknown
	}
	r.add(&expr.Immediate{Register: reg, Data: to.Addr().AsSlice()},
		&expr.Immediate{Register: reg2, Data: binary.BigEndian.AppendUint16(nil, to.Port())})
	r.add(&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(t.byteFamily()), RegAddrMin: reg, RegProtoMin: reg2,
		Specified: true})
	return nil
}

// dnatMap leads to one of many by a random number.
func (t *Table) dnatMap(r *ruleReader) error {
	mod, err := strconv.ParseUint(r.next(), 10, 31)
	if err != nil || mod == 0 || !r.accept("map", "{") {
		return ErrUnknown
	}
	items, err := r.mapItems(int(mod))
	if err != nil {
		return err
	}
	m := anonSet{lookup: &expr.Lookup{SourceRegister: reg, DestRegister: reg, IsDestRegSet: true,
		SetName: anonymousMap}}
	for _, item := range items {
		addr, port, _ := strings.Cut(item, " . ")
		a, err := netip.ParseAddr(addr)
		if err != nil || !t.family.Has(a) || a.Zone() != "" {
			return ErrUnknown
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return ErrUnknown
		}
		m.values = append(m.values, append(binary.BigEndian.AppendUint16(a.AsSlice(), uint16(n)), 0, 0))
	}
	r.anonSets = append(r.anonSets, m)
	after := uint32(afterIP4)
	if t.family == rules.IPv6 {
		after = afterIP6
	}
	r.add(&expr.Numgen{Register: reg, Modulus: uint32(mod), Type: unix.NFT_NG_RANDOM}, m.lookup)
	r.add(&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(t.byteFamily()), RegAddrMin: reg, RegProtoMin: after,
		Specified: true})
	return nil
}

// updateSet enters the source into a set: "@SET { ip saddr }".
func (t *Table) updateSet(r *ruleReader) error {
	set, ok := strings.CutPrefix(r.next(), "@")
	if !ok || !r.accept("{", string(t.family), "saddr", "}") {
		return ErrUnknown
	}
	r.add(t.address(true), &expr.Dynset{SrcRegKey: reg, SetName: set, Operation: unix.NFT_DYNSET_OP_UPDATE})
	return nil
}
