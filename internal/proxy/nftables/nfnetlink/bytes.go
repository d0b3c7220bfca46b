package nfnetlink

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// attrBytes appends an attribute with data.
func attrBytes(to []byte, kind uint16, data []byte) []byte {
	to = binary.NativeEndian.AppendUint16(to, uint16(len(data)+4))
	to = binary.NativeEndian.AppendUint16(to, kind)
	to = append(to, data...)
	for len(to)%4 != 0 {
		to = append(to, 0)
	}
	return to
}

func attrString(to []byte, kind uint16, s string) []byte {
	at := len(to)
	to = binary.NativeEndian.AppendUint16(append(to, 0, 0), kind)
	to = append(append(to, s...), 0)
	closeNest(to, at)
	for len(to)%4 != 0 {
		to = append(to, 0)
	}
	return to
}

func attrUint32(to []byte, kind uint16, n uint32) []byte {
	to = binary.NativeEndian.AppendUint16(to, 8)
	return binary.BigEndian.AppendUint32(binary.NativeEndian.AppendUint16(to, kind), n)
}

// attrValue appends data nested in NFTA_DATA_VALUE, as set elements and registers have it.
func attrValue(to []byte, kind uint16, data []byte) []byte {
	at := len(to)
	to = attrBytes(openNest(to, kind), unix.NFTA_DATA_VALUE, data)
	closeNest(to, at)
	return to
}

// openNest appends the header of a nested attribute. The caller appends its content and then closes
// it, which fills in the length.
func openNest(to []byte, kind uint16) []byte {
	return binary.NativeEndian.AppendUint16(append(to, 0, 0), kind|unix.NLA_F_NESTED)
}

func closeNest(b []byte, at int) { binary.NativeEndian.PutUint16(b[at:], uint16(len(b)-at)) }

func nativeUint32(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// hostToNetwork converts n from host to network byte order.
func hostToNetwork(n uint32) uint32 { return binary.BigEndian.Uint32(nativeUint32(n)) }

// nextAttribute splits the first attribute off b; a truncated one ends the list.
func nextAttribute(b []byte) (kind uint16, data, rest []byte) {
	if len(b) < 4 {
		return 0, nil, nil
	}
	length := int(binary.NativeEndian.Uint16(b))
	if length < 4 || length > len(b) {
		return 0, nil, nil
	}
	return binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER), b[4:length],
		b[min((length+3)&^3, len(b)):]
}

// cString returns b as a string without its terminating zero.
func cString(b []byte) string { return string(bytes.TrimSuffix(b, []byte{0})) }

// uint32Of decodes a big-endian number; 0 if b is too short.
func uint32Of(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}
