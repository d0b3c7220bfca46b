package podinformer

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// fieldSet is a set of field numbers below 64.
type fieldSet uint64

func fieldSetOf(all ...int) fieldSet {
	var f fieldSet
	for _, n := range all {
		f |= 1 << n
	}
	return f
}

func (f fieldSet) has(n protowire.Number) bool { return n < 64 && f&(1<<n) != 0 }

// messageFields is what is kept of a message. Numbers are those of generated.proto in
// k8s.io/api/core/v1 and k8s.io/apimachinery/pkg/apis/meta/v1.
type messageFields struct {
	drop   fieldSet                            // left out
	only   fieldSet                            // all others are left out; 0: none is
	nested map[protowire.Number]*messageFields // messages in it of which something is left out
	dropIf func(value []byte) (bool, error)    // tells whether the whole message is left out; nil: it is not
}

// What differs between Pods of one controller is read from each, the rest is shared. Of other
// objects everything is read but the managed fields.
var (
	// no plugin reads selfLink and managedFields (4, 17)
	ownMetaFields = &messageFields{drop: fieldSetOf(3, 4, 11, 12, 13, 17)}
	// namespace, labels, annotations, ownerReferences
	sharedMetaFields = &messageFields{only: fieldSetOf(3, 11, 12, 13)}
	allFields        = &messageFields{nested: map[protowire.Number]*messageFields{1: {drop: fieldSetOf(4, 17)}}}
	podSpecFields    = &messageFields{
		// nodeName and affinity, which are each Pod's own; hostname, and ephemeralContainers, which
		// only Pods on nodes get
		drop:   fieldSetOf(10, 16, 18, 34),
		nested: map[protowire.Number]*messageFields{1: volumeFields, 2: containerFields, 20: containerFields},
	}
	// command, args, workingDir, env, three probes, envFrom, terminationMessagePath and -Policy
	containerFields = &messageFields{drop: fieldSetOf(3, 4, 5, 7, 10, 11, 13, 19, 20, 22),
		nested: map[protowire.Number]*messageFields{9: mountFields}}
	// newer fields may be features that a node must have
	mountFields     = &messageFields{dropIf: hasOnly(fieldSetOf(1, 2, 3, 4, 5, 6, 7))}
	volumeFields    = &messageFields{dropIf: isNodeIndependentVolume}
	podStatusFields = &messageFields{
		drop:   fieldSetOf(5, 6, 12, 13, 16, 22), // addresses, ephemeralContainerStatuses, volumeHealth
		nested: map[protowire.Number]*messageFields{8: containerStatusFields, 10: containerStatusFields},
	}
	containerStatusFields = &messageFields{only: fieldSetOf(1, 10, 11)} // name, allocatedResources, resources
)

// nodeIndependentSources are volumes that any node can give: hostPath, secret, nfs, downwardAPI,
// configMap, projected.
var nodeIndependentSources = fieldSetOf(1, 6, 7, 16, 19, 26)

// hasOnly tells whether a message has no other fields than these.
func hasOnly(known fieldSet) func([]byte) (bool, error) {
	return func(value []byte) (bool, error) {
		all := true
		err := eachField(value, func(n protowire.Number, _ protowire.Type, _, _ []byte) error {
			all = all && known.has(n)
			return nil
		})
		return all, err
	}
}

// isNodeIndependentVolume tells whether a volume does not matter to finding a node.
func isNodeIndependentVolume(value []byte) (bool, error) {
	plain := false
	err := eachField(value, func(n protowire.Number, _ protowire.Type, _, source []byte) error {
		if n != 2 {
			return nil
		}
		return eachField(source, func(kind protowire.Number, _ protowire.Type, _, _ []byte) error {
			plain = nodeIndependentSources.has(kind)
			return nil
		})
	})
	return plain, err
}

// eachField calls back for every field of a message: with its number and type, with its tag, and
// with its value, which for messages and strings is without its length.
func eachField(src []byte, do func(n protowire.Number, t protowire.Type, tag, value []byte) error) error {
	for len(src) > 0 {
		n, t, size := protowire.ConsumeTag(src)
		if size < 0 {
			return fmt.Errorf("protobuf: %w", protowire.ParseError(size))
		}
		tag := src[:size]
		src = src[size:]
		if size = protowire.ConsumeFieldValue(n, t, src); size < 0 {
			return fmt.Errorf("protobuf: field %d: %w", n, protowire.ParseError(size))
		}
		value := src[:size]
		if t == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		src = src[size:]
		if err := do(n, t, tag, value); err != nil {
			return err
		}
	}
	return nil
}

// trim appends to dst what is kept of a message.
func (m *messageFields) trim(dst, src []byte) ([]byte, error) {
	err := eachField(src, func(n protowire.Number, t protowire.Type, tag, value []byte) error {
		if m.drop.has(n) || m.only != 0 && !m.only.has(n) {
			return nil
		}
		if t != protowire.BytesType {
			dst = append(append(dst, tag...), value...)
			return nil
		}
		sub := m.nested[n]
		if sub == nil {
			dst = protowire.AppendBytes(append(dst, tag...), value)
			return nil
		}
		if sub.dropIf != nil {
			if spare, err := sub.dropIf(value); spare || err != nil {
				return err
			}
		}
		from := len(dst)
		var err error
		if dst, err = sub.trim(dst, value); err != nil {
			return err
		}
		var head [16]byte
		h := protowire.AppendVarint(append(head[:0], tag...), uint64(len(dst)-from))
		dst = slices.Insert(dst, from, h...)
		return nil
	})
	return dst, err
}
