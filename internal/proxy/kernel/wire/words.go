package wire

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// Registers: the first of sixteen bytes, the second, and the first of four bytes after an address in the first.
const (
	reg      = unix.NFT_REG_1
	reg2     = unix.NFT_REG_2
	afterIP4 = unix.NFT_REG32_01
	afterIP6 = unix.NFT_REG32_04
)

// line is a rule read from its text: expressions, of which some look up sets of the rule's own.
type line struct {
	list []expr.Any
	sets []nameless
}

// nameless is a set of a rule's own: a map from 0, 1, … to verdicts or to addresses with ports, or ranges of addresses.
type nameless struct {
	verdicts []verdict
	values   [][]byte
	ranges   []netip.Prefix // sorted, apart
	lookup   *expr.Lookup
}

// exprs are the expressions; the last of the rule's sets has the given number in the batch.
func (l *line) exprs(last uint32) []expr.Any {
	for i := range l.sets {
		l.sets[i].lookup.SetID = last - uint32(len(l.sets)-1-i)
	}
	return l.list
}

func (l *line) add(e ...expr.Any) { l.list = append(l.list, e...) }

// reader goes through a rule's words.
type reader struct {
	words []string
	line
}

// is takes the next words when they are these.
func (r *reader) is(words ...string) bool {
	if len(r.words) < len(words) {
		return false
	}
	for i, w := range words {
		if r.words[i] != w {
			return false
		}
	}
	r.words = r.words[len(words):]
	return true
}

// word takes the next word, empty at the end.
func (r *reader) word() string {
	if len(r.words) == 0 {
		return ""
	}
	w := r.words[0]
	r.words = r.words[1:]
	return w
}

// parse reads a rule. It knows what package rules writes for Services, and refuses all else.
func (t *Table) parse(in string) (*line, error) {
	r := &reader{words: strings.Fields(in)}
	for len(r.words) > 0 {
		if err := t.statement(r); err != nil {
			return nil, err
		}
	}
	return &r.line, nil
}

func (t *Table) statement(r *reader) error {
	ip := string(t.family)
	switch {
	case r.is("meta", "l4proto"):
		n, err := protocol(r.word())
		if err != nil {
			return err
		}
		r.add(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg}, &expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: []byte{n}})
	case r.is("iifname"):
		return r.incoming()
	case r.is(ip, "daddr"):
		r.add(t.address(false))
		return t.compare(r)
	case r.is(ip, "saddr"):
		r.add(t.address(true))
		return t.compare(r)
	case r.is("fib", "saddr", "type", "local"):
		r.add(&expr.Fib{Register: reg, FlagSADDR: true, ResultADDRTYPE: true}, &expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: native(unix.RTN_LOCAL)})
	case r.is("numgen", "random", "mod"):
		return t.chance(r)
	case r.is("dnat", "to"):
		return t.translate(r)
	case r.is("dnat", ip, "addr", ".", "port", "to", "numgen", "random", "mod"):
		return t.translateToOne(r)
	case r.is("update"):
		return t.remember(r)
	default:
		v, err := verdictOf(strings.Join(r.words, " "))
		if err != nil {
			return err
		}
		r.words = nil
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

// compare holds a loaded address against one, or against a set.
func (t *Table) compare(r *reader) error {
	op := expr.CmpOpEq
	if r.is("!=") {
		op = expr.CmpOpNeq
	}
	w := r.word()
	if set, ok := strings.CutPrefix(w, "@"); ok && op == expr.CmpOpEq {
		r.add(&expr.Lookup{SourceRegister: reg, SetName: set})
		return nil
	}
	if w == "{" {
		if len(r.words) < 2 || r.words[1] != "}" {
			return t.ranges(r, op == expr.CmpOpNeq)
		}
		w = r.word() // one range alone
		r.word()
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
		r.add(&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: uint32(len(data)), Mask: mask, Xor: make([]byte, len(data))})
	}
	r.add(&expr.Cmp{Op: op, Register: reg, Data: data})
	return nil
}

// ranges holds a loaded address against several ranges, up to the closing brace.
func (t *Table) ranges(r *reader, none bool) error {
	n := nameless{lookup: &expr.Lookup{SourceRegister: reg, SetName: anonymousSet, Invert: none}}
	for w := r.word(); w != "}"; w = r.word() {
		p, err := prefix(strings.TrimSuffix(w, ","))
		if err != nil || !t.family.Has(p.Addr()) || p.Bits() == 0 || len(n.ranges) == most {
			return ErrUnknown
		}
		if k := len(n.ranges); k > 0 && !end(n.ranges[k-1]).Less(p.Addr()) {
			return ErrUnknown // ranges side by side are one in nft's view
		}
		n.ranges = append(n.ranges, p)
	}
	r.sets = append(r.sets, n)
	r.add(n.lookup)
	return nil
}

// end is the first address after a range; invalid where there is none.
func end(p netip.Prefix) netip.Addr {
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

// incoming compares the interface a packet comes from; a star at the end stands for anything.
func (r *reader) incoming() error {
	op := expr.CmpOpEq
	if r.is("!=") {
		op = expr.CmpOpNeq
	}
	name, err := strconv.Unquote(r.word())
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

// chance is a random number that must be a given one, or chooses a verdict.
func (t *Table) chance(r *reader) error {
	mod, err := strconv.ParseUint(r.word(), 10, 31)
	if err != nil || mod == 0 {
		return ErrUnknown
	}
	r.add(&expr.Numgen{Register: reg, Modulus: uint32(mod), Type: unix.NFT_NG_RANDOM})
	if !r.is("vmap", "{") {
		n, err := strconv.ParseUint(r.word(), 10, 31)
		if err != nil {
			return ErrUnknown
		}
		r.add(&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: native(uint32(n))})
		return nil
	}
	items, err := r.items(int(mod))
	if err != nil {
		return err
	}
	m := nameless{lookup: &expr.Lookup{SourceRegister: reg, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: anonymousMap}}
	for _, item := range items {
		v, err := verdictOf(item)
		if err != nil {
			return err
		}
		m.verdicts = append(m.verdicts, v)
	}
	r.sets = append(r.sets, m)
	r.add(m.lookup)
	return nil
}

// most is how many elements a rule's own map may have here: one attribute, of 64 KiB at most, holds them all.
const most = 500

// items are what the numbers of a map lead to: "0 : x, 1 : y }".
func (r *reader) items(n int) ([]string, error) {
	if n > most || len(r.words) == 0 || r.words[len(r.words)-1] != "}" {
		return nil, ErrUnknown
	}
	all := strings.Split(strings.Join(r.words[:len(r.words)-1], " "), ",")
	r.words = nil
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

// translate leads to one address and port.
func (t *Table) translate(r *reader) error {
	to, err := netip.ParseAddrPort(r.word())
	if err != nil || !t.family.Has(to.Addr()) || to.Addr().Zone() != "" {
		return ErrUnknown
	}
	r.add(&expr.Immediate{Register: reg, Data: to.Addr().AsSlice()}, &expr.Immediate{Register: reg2, Data: binary.BigEndian.AppendUint16(nil, to.Port())})
	r.add(&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(t.byteFamily()), RegAddrMin: reg, RegProtoMin: reg2, Specified: true})
	return nil
}

// translateToOne leads to one of many by a random number.
func (t *Table) translateToOne(r *reader) error {
	mod, err := strconv.ParseUint(r.word(), 10, 31)
	if err != nil || mod == 0 || !r.is("map", "{") {
		return ErrUnknown
	}
	items, err := r.items(int(mod))
	if err != nil {
		return err
	}
	m := nameless{lookup: &expr.Lookup{SourceRegister: reg, DestRegister: reg, IsDestRegSet: true, SetName: anonymousMap}}
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
	r.sets = append(r.sets, m)
	after := uint32(afterIP4)
	if t.family == rules.IPv6 {
		after = afterIP6
	}
	r.add(&expr.Numgen{Register: reg, Modulus: uint32(mod), Type: unix.NFT_NG_RANDOM}, m.lookup)
	r.add(&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(t.byteFamily()), RegAddrMin: reg, RegProtoMin: after, Specified: true})
	return nil
}

// remember enters the source into a set: "@SET { ip saddr }".
func (t *Table) remember(r *reader) error {
	set, ok := strings.CutPrefix(r.word(), "@")
	if !ok || !r.is("{", string(t.family), "saddr", "}") {
		return ErrUnknown
	}
	r.add(t.address(true), &expr.Dynset{SrcRegKey: reg, SetName: set, Operation: unix.NFT_DYNSET_OP_UPDATE})
	return nil
}
