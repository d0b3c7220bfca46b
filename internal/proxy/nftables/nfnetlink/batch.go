package nfnetlink

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// ErrUnknown refuses operations that this package cannot encode. Nothing has been sent.
var ErrUnknown = errors.New("not known to be said over netlink")

// Numbers of nf_tables that x/sys/unix lacks.
const (
	setDescSize  = 1 // NFTA_SET_DESC_SIZE
	batchBegin   = unix.NFNL_MSG_BATCH_BEGIN
	batchEnd     = unix.NFNL_MSG_BATCH_END
	verdictType  = 0xffffff00 // NFT_DATA_VERDICT
	affinitySize = 65535      // clients in one endpoint's affinity set
)

// batch builds the messages of one transaction.
type batch struct {
	table    *Table
	bytes    []byte
	sequence uint32 // of all messages but the acknowledged one, which has the next
	last     int    // offset of the last message
	setCount uint32 // set ids given so far
}

func (b *batch) begin() { b.generationMessage(batchBegin) }

// end closes the batch and asks for an acknowledgement of its last operation.
func (b *batch) end() {
	flags := b.bytes[b.last+6:]
	binary.NativeEndian.PutUint16(flags, binary.NativeEndian.Uint16(flags)|uint16(netlink.Acknowledge))
	binary.NativeEndian.PutUint32(b.bytes[b.last+8:], b.sequence+1)
	b.generationMessage(batchEnd)
}

func (b *batch) generationMessage(kind uint16) {
	b.open(kind, 0, []byte{unix.AF_UNSPEC, 0, 0, unix.NFNL_SUBSYS_NFTABLES})
	b.close()
}

// open begins a message; callers append attributes to bytes and then close it.
func (b *batch) open(kind uint16, flags netlink.HeaderFlags, head []byte) {
	b.last = len(b.bytes)
	b.bytes = append(b.bytes, 0, 0, 0, 0) // length
	b.bytes = binary.NativeEndian.AppendUint16(b.bytes, kind)
	b.bytes = binary.NativeEndian.AppendUint16(b.bytes, uint16(netlink.Request|flags))
	b.bytes = binary.NativeEndian.AppendUint32(b.bytes, b.sequence)
	b.bytes = append(b.bytes, 0, 0, 0, 0) // port id: the kernel fills it in
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

// addOp appends the messages of one operation. It returns ErrUnknown for rules that cannot be
// encoded.
func (b *batch) addOp(op rules.Op) error {
	switch op.Verb {
	case rules.AddChain:
		b.add(unix.NFT_MSG_NEWCHAIN, netlink.Create, b.chainAttr(op.Name))
		// all rules of a chain that is left over from the transaction that this one repeats
		b.add(unix.NFT_MSG_DELRULE, 0, b.ruleAttrs(op.Name))
	case rules.DeleteChain:
		b.add(unix.NFT_MSG_DELCHAIN, 0, b.chainAttr(op.Name))
	case rules.AddRule:
		return b.addRule(op)
	case rules.AddElement, rules.DeleteElement:
		return b.addElement(op)
	case rules.AddAffinity:
		b.addAffinitySet(op)
	case rules.DeleteAffinity:
		b.add(unix.NFT_MSG_DELSET, 0, attrString(attrString(nil, unix.NFTA_SET_TABLE, b.table.name), unix.NFTA_SET_NAME,
			op.Name))
	default:
		return ErrUnknown
	}
	return nil
}

func (b *batch) chainAttr(name string) []byte {
	return attrString(attrString(nil, unix.NFTA_CHAIN_TABLE, b.table.name), unix.NFTA_CHAIN_NAME, name)
}

func (b *batch) ruleAttrs(chain string) []byte {
	return attrString(attrString(nil, unix.NFTA_RULE_TABLE, b.table.name), unix.NFTA_RULE_CHAIN, chain)
}

func (b *batch) addRule(op rules.Op) error {
	tokens, err := b.table.parse(op.Text)
	if err != nil {
		return err
	}
	for i := range tokens.anonSets {
		b.addAnonSet(&tokens.anonSets[i])
	}
	family := b.table.byteFamily()
	var list []byte
	for _, e := range tokens.exprs(b.setCount) {
		raw, err := expr.Marshal(family, e)
		if err != nil {
			return err
		}
		list = attrBytes(list, unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, raw)
	}
	b.add(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append,
		attrBytes(b.ruleAttrs(op.Name), unix.NFTA_RULE_EXPRESSIONS|unix.NLA_F_NESTED, list))
	return nil
}

// addAnonSet appends the anonymous set of the rule that follows.
func (b *batch) addAnonSet(n *anonSet) {
	b.setCount++
	elements, count := b.elements(n)
	name, flags := anonymousMap, uint32(unix.NFT_SET_ANONYMOUS|unix.NFT_SET_CONSTANT)
	keyType, keyLen, order := uint32(typeInteger), uint32(4), uint32(hostOrder)
	addrType, addrLen := b.address()
	if n.ranges != nil {
		name, flags, keyType, keyLen, order = anonymousSet, flags|unix.NFT_SET_INTERVAL, addrType, addrLen, bigOrder
	} else {
		flags |= unix.NFT_SET_MAP
	}
	a := attrString(attrString(nil, unix.NFTA_SET_TABLE, b.table.name), unix.NFTA_SET_NAME, name)
	a = attrUint32(attrUint32(a, unix.NFTA_SET_ID, b.setCount), unix.NFTA_SET_FLAGS, flags)
	a = attrUint32(attrUint32(a, unix.NFTA_SET_KEY_TYPE, keyType), unix.NFTA_SET_KEY_LEN, keyLen)
	switch {
	case n.verdicts != nil:
		a = attrUint32(attrUint32(a, unix.NFTA_SET_DATA_TYPE, verdictType), unix.NFTA_SET_DATA_LEN, 16)
	case n.values != nil:
		a = attrUint32(attrUint32(a, unix.NFTA_SET_DATA_TYPE, addrType<<6|typeService), unix.NFTA_SET_DATA_LEN,
			addrLen+4)
	}
	a = attrBytes(a, unix.NFTA_SET_DESC|unix.NLA_F_NESTED, attrUint32(nil, setDescSize, uint32(count)))
	a = attrBytes(a, unix.NFTA_SET_USERDATA, append([]byte{keyByteOrder, 4}, nativeUint32(order)...))
	b.add(unix.NFT_MSG_NEWSET, netlink.Create, a)
	a = attrString(attrString(nil, unix.NFTA_SET_ELEM_LIST_TABLE, b.table.name), unix.NFTA_SET_ELEM_LIST_SET, name)
	a = attrUint32(a, unix.NFTA_SET_ELEM_LIST_SET_ID, b.setCount)
	b.add(unix.NFT_MSG_NEWSETELEM, netlink.Create, attrBytes(a, unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED,
		elements))
}

// elements returns the encoded elements of an anonymous set and their number.
func (b *batch) elements(n *anonSet) (list []byte, count int) {
	add := func(key []byte, more func([]byte) []byte) {
		e := attrValue(nil, unix.NFTA_SET_ELEM_KEY, key)
		if more != nil {
			e = more(e)
		}
		list = attrBytes(list, unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, e)
		count++
	}
	for i, v := range n.verdicts {
		add(nativeUint32(uint32(i)),
			func(e []byte) []byte { return attrBytes(e, unix.NFTA_SET_ELEM_DATA|unix.NLA_F_NESTED, v.data()) })
	}
	for i, v := range n.values {
		add(nativeUint32(uint32(i)), func(e []byte) []byte { return attrValue(e, unix.NFTA_SET_ELEM_DATA, v) })
	}
	ends := func(e []byte) []byte { return attrUint32(e, unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END) }
	for i, p := range n.ranges {
		start := p.Masked().Addr()
		if i == 0 && !start.IsUnspecified() {
			add(make([]byte, start.BitLen()/8), ends) // the interval before the first range matches nothing
		}
		add(start.AsSlice(), nil)
		if end := addressAfter(p); end.IsValid() {
			add(end.AsSlice(), ends)
		}
	}
	return list, count
}

// address returns nftables' type number of the family's addresses, and their length in bytes.
func (b *batch) address() (kind, length uint32) {
	if b.table.family == rules.IPv6 {
		return typeIPv6, 16
	}
	return typeIPv4, 4
}

// User data that nft stores with a set to print it: the byte order of its keys.
const (
	anonymousMap = "__map%d"
	anonymousSet = "__set%d"
	keyByteOrder = 0 // NFTNL_UDATA_SET_KEYBYTEORDER
	hostOrder    = 1
	bigOrder     = 2
)

func (b *batch) addElement(op rules.Op) error {
	k, ok := b.table.setTypes[op.Name]
	if !ok {
		return ErrUnknown
	}
	key, err := k.encodeKey(op.Key)
	if err != nil {
		return err
	}
	var to []byte
	if k.data != nil {
		if to, err = k.data.encodeKey(op.Text); err != nil {
			return err
		}
	}
	var v verdict
	if k.isVerdictMap {
		if v, err = verdictOf(op.Text); err != nil {
			return err
		}
	}
	kind, flags := uint16(unix.NFT_MSG_DELSETELEM), netlink.HeaderFlags(0)
	if op.Verb == rules.AddElement {
		kind, flags = unix.NFT_MSG_NEWSETELEM, netlink.Create
	}
	b.openOwn(kind, flags)
	b.bytes = attrString(attrString(b.bytes, unix.NFTA_SET_ELEM_LIST_TABLE, b.table.name), unix.NFTA_SET_ELEM_LIST_SET,
		op.Name)
	list := len(b.bytes)
	b.bytes = openNest(b.bytes, unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	one := len(b.bytes)
	b.bytes = attrValue(openNest(b.bytes, unix.NFTA_LIST_ELEM), unix.NFTA_SET_ELEM_KEY, key)
	switch {
	case k.data != nil:
		b.bytes = attrValue(b.bytes, unix.NFTA_SET_ELEM_DATA, to)
	case k.isVerdictMap:
		b.bytes = attrBytes(b.bytes, unix.NFTA_SET_ELEM_DATA|unix.NLA_F_NESTED, v.data())
	}
	closeNest(b.bytes, one)
	closeNest(b.bytes, list)
	b.close()
	return nil
}

// addAffinitySet appends a dynamic set of client addresses; the kernel adds elements and expires
// them.
func (b *batch) addAffinitySet(op rules.Op) {
	b.setCount++
	t, length := b.address()
	a := attrString(attrString(nil, unix.NFTA_SET_TABLE, b.table.name), unix.NFTA_SET_NAME, op.Name)
	a = attrUint32(a, unix.NFTA_SET_ID, b.setCount)
	a = attrUint32(a, unix.NFTA_SET_FLAGS, unix.NFT_SET_TIMEOUT|unix.NFT_SET_EVAL)
	a = attrUint32(attrUint32(a, unix.NFTA_SET_KEY_TYPE, t), unix.NFTA_SET_KEY_LEN, length)
	a = attrBytes(a, unix.NFTA_SET_TIMEOUT,
		binary.BigEndian.AppendUint64(nil, uint64((time.Duration(op.Timeout)*time.Second).Milliseconds())))
	a = attrBytes(a, unix.NFTA_SET_DESC|unix.NLA_F_NESTED, attrUint32(nil, setDescSize, affinitySize))
	a = attrBytes(a, unix.NFTA_SET_USERDATA, append([]byte{keyByteOrder, 4}, nativeUint32(bigOrder)...))
	b.add(unix.NFT_MSG_NEWSET, netlink.Create, a)
}

// data returns the verdict encoded as an element's data.
func (v verdict) data() []byte {
	code := attrUint32(nil, unix.NFTA_VERDICT_CODE, uint32(v.Kind))
	if v.Chain != "" {
		code = attrString(code, unix.NFTA_VERDICT_CHAIN, v.Chain)
	}
	return attrBytes(nil, unix.NFTA_DATA_VERDICT|unix.NLA_F_NESTED, code)
}
