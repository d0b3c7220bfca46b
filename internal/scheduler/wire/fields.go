package wire

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// numbers is a set of field numbers below 64.
type numbers uint64

func set(all ...int) numbers {
	var f numbers
	for _, n := range all {
		f |= 1 << n
	}
	return f
}

func (f numbers) has(n protowire.Number) bool { return n < 64 && f&(1<<n) != 0 }

// message says what is kept of a message. Numbers are those of generated.proto in k8s.io/api/core/v1 and k8s.io/apimachinery/pkg/apis/meta/v1.
type message struct {
	drop   numbers                          // left out
	only   numbers                          // all others are left out; 0: none is
	nested map[protowire.Number]*message    // messages in it of which something is left out
	spare  func(value []byte) (bool, error) // tells whether the whole message is left out; nil: it is not
}

// What makes a Pod different from its siblings is read from each, the rest is shared. Of other objects all is read (whole) but who wrote it.
var (
	ownMeta    = &message{drop: set(3, 4, 11, 12, 13, 17)} // selfLink and managedFields (4, 17) nobody reads
	sharedMeta = &message{only: set(3, 11, 12, 13)}        // namespace, labels, annotations, ownerReferences
	whole      = &message{nested: map[protowire.Number]*message{1: {drop: set(4, 17)}}}
	podSpec    = &message{
		drop:   set(10, 16, 18, 34), // nodeName and affinity, which each has for itself; hostname, and ephemeralContainers, which come to Pods that have a node
		nested: map[protowire.Number]*message{1: volume, 2: container, 20: container},
	}
	// command, args, workingDir, env, three probes, envFrom, terminationMessagePath and -Policy
	container = &message{drop: set(3, 4, 5, 7, 10, 11, 13, 19, 20, 22), nested: map[protowire.Number]*message{9: mount}}
	mount     = &message{spare: within(set(1, 2, 3, 4, 5, 6, 7))} // newer fields can be features that a node must have
	volume    = &message{spare: withoutRules}
	podStatus = &message{
		drop:   set(5, 6, 12, 13, 16, 22), // addresses, ephemeralContainerStatuses, volumeHealth
		nested: map[protowire.Number]*message{8: containerStatus, 10: containerStatus},
	}
	containerStatus = &message{only: set(1, 10, 11)} // name, allocatedResources, resources
)

// plainSources are volumes that any node can give: hostPath, secret, nfs, downwardAPI, configMap, projected.
var plainSources = set(1, 6, 7, 16, 19, 26)

// within tells whether a message has none but these fields.
func within(known numbers) func([]byte) (bool, error) {
	return func(value []byte) (bool, error) {
		all := true
		err := each(value, func(n protowire.Number, _ protowire.Type, _, _ []byte) error {
			all = all && known.has(n)
			return nil
		})
		return all, err
	}
}

// withoutRules tells whether a volume plays no part in finding a node.
func withoutRules(value []byte) (bool, error) {
	plain := false
	err := each(value, func(n protowire.Number, _ protowire.Type, _, source []byte) error {
		if n != 2 {
			return nil
		}
		return each(source, func(kind protowire.Number, _ protowire.Type, _, _ []byte) error {
			plain = plainSources.has(kind)
			return nil
		})
	})
	return plain, err
}

// each calls back for every field of a message: with its number and type, with its tag, and with its value, which for messages and strings is without its length.
func each(src []byte, do func(n protowire.Number, t protowire.Type, tag, value []byte) error) error {
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
func (m *message) trim(dst, src []byte) ([]byte, error) {
	err := each(src, func(n protowire.Number, t protowire.Type, tag, value []byte) error {
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
		if sub.spare != nil {
			if spare, err := sub.spare(value); spare || err != nil {
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
