package podinformer

import (
	"bytes"
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// protobufMagic begins objects in protobuf (k8s.io/apimachinery/pkg/runtime/serializer/protobuf).
var protobufMagic = []byte("k8s\x00")

// decoder decodes objects of a resourceType and lists of them itself and leaves everything else to
// the ordinary Serializer. One goroutine uses it at a time.
type decoder struct {
	runtime.Serializer
	*resourceType
	*valueCache
}

// valueCache are the values that Pods share, and buffers.
type valueCache struct {
	mu       sync.Mutex
	meta     sharedValues[metav1.ObjectMeta]
	specs    sharedValues[v1.PodSpec]
	statuses sharedValues[v1.PodStatus]
	names    sharedValues[string]
	affinity sharedValues[v1.Affinity]
	buffer   []byte
}

// Decode decodes into a new object.
func (d decoder) Decode(data []byte, defaults *schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into != nil {
		return d.Serializer.Decode(data, defaults, into)
	}
	of, read := d.GroupVersionKind, d.decodeOne
	kind, raw := envelope(data, of.GroupVersion())
	switch kind {
	case of.Kind:
	case d.listKind:
		of.Kind, read = kind, d.decodeList
	default:
		return d.Serializer.Decode(data, defaults, into)
	}
	d.mu.Lock()
	o, err := read(d.valueCache, raw)
	d.mu.Unlock()
	if err != nil {
		return d.Serializer.Decode(data, defaults, into) // its errors name what is wrong
	}
	return o, &of, nil
}

// envelope reads the kind and the bytes of an object of an API version; an empty kind for any other
// version, and for what it cannot read.
func envelope(data []byte, of schema.GroupVersion) (kind string, raw []byte) {
	data, ok := bytes.CutPrefix(data, protobufMagic)
	if !ok {
		return "", nil
	}
	version := false
	err := eachField(data, func(n protowire.Number, _ protowire.Type, _, value []byte) error {
		switch n {
		case 1: // type: apiVersion, kind
			return eachField(value, func(n protowire.Number, _ protowire.Type, _, value []byte) error {
				switch n {
				case 1:
					version = sameVersion(value, of)
				case 2:
					kind = string(value)
				}
				return nil
			})
		case 2:
			raw = value
		}
		return nil
	})
	if err != nil || !version {
		return "", nil
	}
	return kind, raw
}

// sameVersion compares without allocating strings.
func sameVersion(raw []byte, of schema.GroupVersion) bool {
	if of.Group == "" {
		return string(raw) == of.Version
	}
	group, version, ok := bytes.Cut(raw, []byte("/"))
	return ok && string(group) == of.Group && string(version) == of.Version
}

// eachItem calls back for each item of a list.
func eachItem(raw []byte, meta *metav1.ListMeta, item func(raw []byte) error) error {
	return eachField(raw, func(n protowire.Number, _ protowire.Type, _, value []byte) error {
		switch n {
		case 1:
			return meta.Unmarshal(value)
		case 2:
			return item(value)
		}
		return nil
	})
}

func (s *valueCache) decodePod(raw []byte, p *v1.Pod) error {
	return eachField(raw, func(n protowire.Number, _ protowire.Type, _, value []byte) error {
		switch n {
		case 1:
			return s.decodeObjectMeta(value, &p.ObjectMeta)
		case 2:
			return s.decodePodSpec(value, &p.Spec)
		case 3:
			return s.decodePodStatus(value, &p.Status)
		}
		return nil
	})
}

func (s *valueCache) decodeObjectMeta(raw []byte, m *metav1.ObjectMeta) error {
	common, err := s.meta.decodeTrimmed(s, sharedMetaFields, raw, (*metav1.ObjectMeta).Unmarshal)
	if err != nil {
		return err
	}
	*m = *common
	if s.buffer, err = ownMetaFields.trim(s.buffer[:0], raw); err != nil {
		return err
	}
	return m.Unmarshal(s.buffer) // merges into what is there
}

func (s *valueCache) decodePodSpec(raw []byte, spec *v1.PodSpec) error {
	common, err := s.specs.decodeTrimmed(s, podSpecFields, raw, (*v1.PodSpec).Unmarshal)
	if err != nil {
		return err
	}
	*spec = *common
	return s.decodeOwnSpec(raw, spec)
}

// decodeOwnSpec reads the part of a spec that Pods of one controller do not share: the node name,
// and the affinity of those that name their node in it, as a DaemonSet's do.
func (s *valueCache) decodeOwnSpec(raw []byte, spec *v1.PodSpec) error {
	return eachField(raw, func(n protowire.Number, t protowire.Type, _, value []byte) error {
		switch {
		case n != 10 && n != 18:
		case t != protowire.BytesType:
			return fmt.Errorf("protobuf: field %d of a spec has type %d", n, t)
		case n == 10:
			name, err := s.names.decodeShared(value, func(name *string, raw []byte) error {
				*name = string(raw)
				return nil
			})
			if err == nil {
				spec.NodeName = *name
			}
			return err
		default:
			var err error
			spec.Affinity, err = s.affinity.decodeShared(value, (*v1.Affinity).Unmarshal)
			return err
		}
		return nil
	})
}

func (s *valueCache) decodePodStatus(raw []byte, status *v1.PodStatus) error {
	common, err := s.statuses.decodeTrimmed(s, podStatusFields, raw, (*v1.PodStatus).Unmarshal)
	if err != nil {
		return err
	}
	*status = *common
	return nil
}

// maxSharedValues is how many values sharedValues keeps in each of its two generations.
const maxSharedValues = 4096

// sharedValues keeps decoded values by their bytes. A value that is not looked up while
// maxSharedValues others are is dropped.
type sharedValues[T any] struct{ current, previous map[string]*T }

// decodeTrimmed is the value of what a message's fieldset keeps of raw, decoded or shared.
func (c *sharedValues[T]) decodeTrimmed(s *valueCache, keep *messageFields, raw []byte,
	unmarshal func(*T, []byte) error) (*T, error) {
	var err error
	if s.buffer, err = keep.trim(s.buffer[:0], raw); err != nil {
		return nil, err
	}
	return c.decodeShared(s.buffer, unmarshal)
}

// decodeShared is the value of raw, decoded or shared.
func (c *sharedValues[T]) decodeShared(raw []byte, unmarshal func(*T, []byte) error) (*T, error) {
	if v := c.current[string(raw)]; v != nil {
		return v, nil
	}
	v := c.previous[string(raw)]
	if v == nil {
		v = new(T)
		if err := unmarshal(v, raw); err != nil {
			return nil, err
		}
	}
	if len(c.current) >= maxSharedValues {
		c.current, c.previous = nil, c.current
	}
	if c.current == nil {
		c.current = map[string]*T{}
	}
	c.current[string(raw)] = v
	return v, nil
}
