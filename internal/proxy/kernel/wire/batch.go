package wire

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// ErrUnknown is what operations are refused with that have no translation here.
var ErrUnknown = errors.New("not known to be said over netlink")

// Numbers of nf_tables' own.
const (
	setDescSize  = 1 // NFTA_SET_DESC_SIZE
	batchBegin   = unix.NFNL_MSG_BATCH_BEGIN
	batchEnd     = unix.NFNL_MSG_BATCH_END
	verdictType  = 0xffffff00 // NFT_DATA_VERDICT
	affinitySize = 65535      // clients that one endpoint remembers
)

// batch gathers messages, as they go to the kernel.
type batch struct {
	table    *Table
	bytes    []byte
	sequence uint32 // of all messages but the one that is acknowledged, which has the next
	last     int    // where the last message begins
	sets     uint32 // given numbers
}

func (b *batch) begin() { b.bound(batchBegin) }

// end closes the batch; the last operation is acknowledged.
func (b *batch) end() {
	flags := b.bytes[b.last+6:]
	binary.NativeEndian.PutUint16(flags, binary.NativeEndian.Uint16(flags)|uint16(netlink.Acknowledge))
	binary.NativeEndian.PutUint32(b.bytes[b.last+8:], b.sequence+1)
	b.bound(batchEnd)
}

func (b *batch) bound(kind uint16) {
	b.open(kind, 0, []byte{unix.AF_UNSPEC, 0, 0, unix.NFNL_SUBSYS_NFTABLES})
	b.close()
}

// open begins a message; attributes are appended to bytes until it is closed.
func (b *batch) open(kind uint16, flags netlink.HeaderFlags, head []byte) {
	b.last = len(b.bytes)
	b.bytes = append(b.bytes, 0, 0, 0, 0) // length
	b.bytes = binary.NativeEndian.AppendUint16(b.bytes, kind)
	b.bytes = binary.NativeEndian.AppendUint16(b.bytes, uint16(netlink.Request|flags))
	b.bytes = binary.NativeEndian.AppendUint32(b.bytes, b.sequence)
	b.bytes = append(b.bytes, 0, 0, 0, 0) // port: the kernel knows
	b.bytes = append(b.bytes, head...)
}

func (b *batch) close() {
	binary.NativeEndian.PutUint32(b.bytes[b.last:], uint32(len(b.bytes)-b.last))
}

func (b *batch) openOwn(kind uint16, flags netlink.HeaderFlags) {
	b.open(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags, []byte{b.table.byteFamily(), 0, 0, 0})
}

func (b *batch) add(kind uint16, flags netlink.HeaderFlags, attrs []byte) {
	b.openOwn(kind, flags)
	b.bytes = append(b.bytes, attrs...)
	b.close()
}

// op adds what an operation needs.
func (b *batch) op(op rules.Op) error {
	switch op.Verb {
	case rules.AddChain:
		b.add(unix.NFT_MSG_NEWCHAIN, netlink.Create, b.chain(op.Name))
		b.add(unix.NFT_MSG_DELRULE, 0, b.rule(op.Name)) // all of a chain left by a transaction that this one repeats
	case rules.DeleteChain:
		b.add(unix.NFT_MSG_DELCHAIN, 0, b.chain(op.Name))
	case rules.AddRule:
		return b.addRule(op)
	case rules.AddElement, rules.DeleteElement:
		return b.element(op)
	case rules.AddAffinity:
		b.affinity(op)
	case rules.DeleteAffinity:
		b.add(unix.NFT_MSG_DELSET, 0, text(text(nil, unix.NFTA_SET_TABLE, b.table.name), unix.NFTA_SET_NAME, op.Name))
	default:
		return ErrUnknown
	}
	return nil
}

func (b *batch) chain(name string) []byte {
	return text(text(nil, unix.NFTA_CHAIN_TABLE, b.table.name), unix.NFTA_CHAIN_NAME, name)
}

func (b *batch) rule(chain string) []byte {
	return text(text(nil, unix.NFTA_RULE_TABLE, b.table.name), unix.NFTA_RULE_CHAIN, chain)
}

func (b *batch) addRule(op rules.Op) error {
	words, err := b.table.parse(op.Text)
	if err != nil {
		return err
	}
	for i := range words.sets {
		b.nameless(&words.sets[i])
	}
	family := b.table.byteFamily()
	var list []byte
	for _, e := range words.exprs(b.sets) {
		raw, err := expr.Marshal(family, e)
		if err != nil {
			return err
		}
		list = attr(list, unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, raw)
	}
	b.add(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, attr(b.rule(op.Name), unix.NFTA_RULE_EXPRESSIONS|unix.NLA_F_NESTED, list))
	return nil
}

// nameless adds a set that belongs to the rule that follows.
func (b *batch) nameless(n *nameless) {
	b.sets++
	elements, count := b.elements(n)
	name, flags := anonymousMap, uint32(unix.NFT_SET_ANONYMOUS|unix.NFT_SET_CONSTANT)
	keyType, keyLen, order := uint32(typeInteger), uint32(4), uint32(hostOrder)
	addrType, addrLen := b.address()
	if n.ranges != nil {
		name, flags, keyType, keyLen, order = anonymousSet, flags|unix.NFT_SET_INTERVAL, addrType, addrLen, bigOrder
	} else {
		flags |= unix.NFT_SET_MAP
	}
	a := text(text(nil, unix.NFTA_SET_TABLE, b.table.name), unix.NFTA_SET_NAME, name)
	a = number(number(a, unix.NFTA_SET_ID, b.sets), unix.NFTA_SET_FLAGS, flags)
	a = number(number(a, unix.NFTA_SET_KEY_TYPE, keyType), unix.NFTA_SET_KEY_LEN, keyLen)
	switch {
	case n.verdicts != nil:
		a = number(number(a, unix.NFTA_SET_DATA_TYPE, verdictType), unix.NFTA_SET_DATA_LEN, 16)
	case n.values != nil:
		a = number(number(a, unix.NFTA_SET_DATA_TYPE, addrType<<6|typeService), unix.NFTA_SET_DATA_LEN, addrLen+4)
	}
	a = attr(a, unix.NFTA_SET_DESC|unix.NLA_F_NESTED, number(nil, setDescSize, uint32(count)))
	a = attr(a, unix.NFTA_SET_USERDATA, append([]byte{keyByteOrder, 4}, native(order)...))
	b.add(unix.NFT_MSG_NEWSET, netlink.Create, a)
	a = text(text(nil, unix.NFTA_SET_ELEM_LIST_TABLE, b.table.name), unix.NFTA_SET_ELEM_LIST_SET, name)
	a = number(a, unix.NFTA_SET_ELEM_LIST_SET_ID, b.sets)
	b.add(unix.NFT_MSG_NEWSETELEM, netlink.Create, attr(a, unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED, elements))
}

// elements are those of a nameless set, and their number.
func (b *batch) elements(n *nameless) (list []byte, count int) {
	add := func(key []byte, more func([]byte) []byte) {
		e := value(nil, unix.NFTA_SET_ELEM_KEY, key)
		if more != nil {
			e = more(e)
		}
		list = attr(list, unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, e)
		count++
	}
	for i, v := range n.verdicts {
		add(native(uint32(i)), func(e []byte) []byte { return attr(e, unix.NFTA_SET_ELEM_DATA|unix.NLA_F_NESTED, v.data()) })
	}
	for i, v := range n.values {
		add(native(uint32(i)), func(e []byte) []byte { return value(e, unix.NFTA_SET_ELEM_DATA, v) })
	}
	ends := func(e []byte) []byte { return number(e, unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END) }
	for i, p := range n.ranges {
		start := p.Masked().Addr()
		if i == 0 && !start.IsUnspecified() {
			add(make([]byte, start.BitLen()/8), ends) // nothing below the first
		}
		add(start.AsSlice(), nil)
		if end := end(p); end.IsValid() {
			add(end.AsSlice(), ends)
		}
	}
	return list, count
}

// address is the type of the family's addresses, and their length.
func (b *batch) address() (kind, length uint32) {
	if b.table.family == rules.IPv6 {
		return typeIPv6, 16
	}
	return typeIPv4, 4
}

// What nft writes beside a set, so that it can print it: the order of its keys' bytes.
const (
	anonymousMap = "__map%d"
	anonymousSet = "__set%d"
	keyByteOrder = 0 // NFTNL_UDATA_SET_KEYBYTEORDER
	hostOrder    = 1
	bigOrder     = 2
)

func (b *batch) element(op rules.Op) error {
	k, ok := b.table.sets[op.Name]
	if !ok {
		return ErrUnknown
	}
	key, err := k.key(op.Key)
	if err != nil {
		return err
	}
	var to []byte
	if k.data != nil {
		if to, err = k.data.key(op.Text); err != nil {
			return err
		}
	}
	var v verdict
	if k.verdicts {
		if v, err = verdictOf(op.Text); err != nil {
			return err
		}
	}
	kind, flags := uint16(unix.NFT_MSG_DELSETELEM), netlink.HeaderFlags(0)
	if op.Verb == rules.AddElement {
		kind, flags = unix.NFT_MSG_NEWSETELEM, netlink.Create
	}
	b.openOwn(kind, flags)
	b.bytes = text(text(b.bytes, unix.NFTA_SET_ELEM_LIST_TABLE, b.table.name), unix.NFTA_SET_ELEM_LIST_SET, op.Name)
	list := len(b.bytes)
	b.bytes = nest(b.bytes, unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	one := len(b.bytes)
	b.bytes = value(nest(b.bytes, unix.NFTA_LIST_ELEM), unix.NFTA_SET_ELEM_KEY, key)
	switch {
	case k.data != nil:
		b.bytes = value(b.bytes, unix.NFTA_SET_ELEM_DATA, to)
	case k.verdicts:
		b.bytes = attr(b.bytes, unix.NFTA_SET_ELEM_DATA|unix.NLA_F_NESTED, v.data())
	}
	closed(b.bytes, one)
	closed(b.bytes, list)
	b.close()
	return nil
}

// affinity adds a set of clients' addresses that the kernel fills and forgets.
func (b *batch) affinity(op rules.Op) {
	b.sets++
	t, length := b.address()
	a := text(text(nil, unix.NFTA_SET_TABLE, b.table.name), unix.NFTA_SET_NAME, op.Name)
	a = number(a, unix.NFTA_SET_ID, b.sets)
	a = number(a, unix.NFTA_SET_FLAGS, unix.NFT_SET_TIMEOUT|unix.NFT_SET_EVAL)
	a = number(number(a, unix.NFTA_SET_KEY_TYPE, t), unix.NFTA_SET_KEY_LEN, length)
	a = attr(a, unix.NFTA_SET_TIMEOUT, binary.BigEndian.AppendUint64(nil, uint64((time.Duration(op.Timeout)*time.Second).Milliseconds())))
	a = attr(a, unix.NFTA_SET_DESC|unix.NLA_F_NESTED, number(nil, setDescSize, affinitySize))
	a = attr(a, unix.NFTA_SET_USERDATA, append([]byte{keyByteOrder, 4}, native(bigOrder)...))
	b.add(unix.NFT_MSG_NEWSET, netlink.Create, a)
}

// data is the verdict as an element has it.
func (v verdict) data() []byte {
	code := number(nil, unix.NFTA_VERDICT_CODE, uint32(v.Kind))
	if v.Chain != "" {
		code = text(code, unix.NFTA_VERDICT_CHAIN, v.Chain)
	}
	return attr(nil, unix.NFTA_DATA_VERDICT|unix.NLA_F_NESTED, code)
}
