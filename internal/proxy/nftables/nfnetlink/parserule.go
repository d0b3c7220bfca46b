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

// Registers: the first and second of 16 bytes, and the 4-byte register that follows an address in
// the first.
const (
	reg      = unix.NFT_REG_1
	reg2     = unix.NFT_REG_2
	afterIP4 = unix.NFT_REG32_01
	afterIP6 = unix.NFT_REG32_04
)

// parsedRule is a rule parsed from nft's text: expressions, some of which refer to anonymous sets
// of the rule.
type parsedRule struct {
	list     []expr.Any
	anonSets []anonSet
}

// anonSet is an anonymous set: a map from 0, 1, … to verdicts or to address and port, or a set of
// address ranges.
type anonSet struct {
	verdicts []verdict
	values   [][]byte
	ranges   []netip.Prefix // sorted, not overlapping nor adjacent
	lookup   *expr.Lookup
}

// exprs returns the expressions; last is the batch's id of the rule's last anonymous set.
func (l *parsedRule) exprs(last uint32) []expr.Any {
	for i := range l.anonSets {
		l.anonSets[i].lookup.SetID = last - uint32(len(l.anonSets)-1-i)
	}
	return l.list
}

func (l *parsedRule) add(e ...expr.Any) { l.list = append(l.list, e...) }

// ruleReader reads a rule token by token.
type ruleReader struct {
	tokens []string
	parsedRule
}

// accept consumes the next tokens if they are the given ones.
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

// next consumes the next token; "" at the end.
func (r *ruleReader) next() string {
	if len(r.tokens) == 0 {
		return ""
	}
	w := r.tokens[0]
	r.tokens = r.tokens[1:]
	return w
}

// parse parses a rule as package rules writes it for Services; anything else is ErrUnknown.
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

// address returns the expression that loads the packet's source or destination address.
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

// compareAddress parses the comparison of a loaded address with an address or a set.
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
		w = r.next() // a single range
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

// compareRanges parses the comparison of a loaded address with several ranges, up to the closing
// brace.
func (t *Table) compareRanges(r *ruleReader, none bool) error {
	n := anonSet{lookup: &expr.Lookup{SourceRegister: reg, SetName: anonymousSet, Invert: none}}
	for w := r.next(); w != "}"; w = r.next() {
		p, err := prefix(strings.TrimSuffix(w, ","))
		if err != nil || !t.family.Has(p.Addr()) || p.Bits() == 0 || len(n.ranges) == maxMapItems {
			return ErrUnknown
		}
		if k := len(n.ranges); k > 0 && !addressAfter(n.ranges[k-1]).Less(p.Addr()) {
			return ErrUnknown // nft merges adjacent ranges
		}
		n.ranges = append(n.ranges, p)
	}
	r.anonSets = append(r.anonSets, n)
	r.add(n.lookup)
	return nil
}

// addressAfter returns the first address after p; invalid if there is none.
func addressAfter(p netip.Prefix) netip.Addr {
	last := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(last)
	return a.Next()
}

// prefix parses a prefix or a single address.
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

// iifname parses the comparison of the input interface; a trailing star matches any suffix.
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

// numgen parses a random number that is compared, or selects a verdict.
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

// maxMapItems is how many elements an anonymous map may have here: all must fit into one attribute
// of 64 KiB.
const maxMapItems = 500

// mapItems parses the values of a map such as "0 : x, 1 : y }".
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

// dnat parses DNAT to one address and port.
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

// dnatMap parses DNAT to one of several endpoints by a random number.
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

// updateSet parses the update of a set with the source address: "@SET { ip saddr }".
func (t *Table) updateSet(r *ruleReader) error {
	set, ok := strings.CutPrefix(r.next(), "@")
	if !ok || !r.accept("{", string(t.family), "saddr", "}") {
		return ErrUnknown
	}
	r.add(t.address(true), &expr.Dynset{SrcRegKey: reg, SetName: set, Operation: unix.NFT_DYNSET_OP_UPDATE})
	return nil
}
