package wire

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

// magic begins objects in protobuf (k8s.io/apimachinery/pkg/runtime/serializer/protobuf).
var magic = []byte("k8s\x00")

// decoder decodes objects of a row and lists of them itself and leaves all else to an ordinary one.
type decoder struct {
	runtime.Serializer
	*row
	*stock
}

// stock is what Pods share, and room to work in.
type stock struct {
	mu       sync.Mutex
	meta     shared[metav1.ObjectMeta]
	specs    shared[v1.PodSpec]
	statuses shared[v1.PodStatus]
	names    shared[string]
	affinity shared[v1.Affinity]
	room     []byte
}

// Decode decodes into a new object.
func (d decoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into != nil {
		return d.Serializer.Decode(data, defaults, into)
	}
	of, read := d.GroupVersionKind, d.one
	kind, raw := envelope(data, of.GroupVersion())
	switch kind {
	case of.Kind:
	case d.list:
		of.Kind, read = kind, d.many
	default:
		return d.Serializer.Decode(data, defaults, into)
	}
	d.mu.Lock()
	o, err := read(d.stock, raw)
	d.mu.Unlock()
	if err != nil {
		return d.Serializer.Decode(data, defaults, into) // its errors say what is wrong
	}
	return o, &of, nil
}

// envelope gives the kind of an object of a version of the API and its bytes; an empty kind for any other, and for what it cannot read.
func envelope(data []byte, of schema.GroupVersion) (kind string, raw []byte) {
	data, ok := bytes.CutPrefix(data, magic)
	if !ok {
		return "", nil
	}
	version := false
	err := each(data, func(n protowire.Number, _ protowire.Type, _, value []byte) error {
		switch n {
		case 1: // type: apiVersion, kind
			return each(value, func(n protowire.Number, _ protowire.Type, _, value []byte) error {
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

// sameVersion compares without making strings.
func sameVersion(raw []byte, of schema.GroupVersion) bool {
	if of.Group == "" {
		return string(raw) == of.Version
	}
	group, version, ok := bytes.Cut(raw, []byte("/"))
	return ok && string(group) == of.Group && string(version) == of.Version
}

// eachItem reads a list.
func eachItem(raw []byte, meta *metav1.ListMeta, item func(raw []byte) error) error {
	return each(raw, func(n protowire.Number, _ protowire.Type, _, value []byte) error {
		switch n {
		case 1:
			return meta.Unmarshal(value)
		case 2:
			return item(value)
		}
		return nil
	})
}

func (s *stock) pod(raw []byte, p *v1.Pod) error {
	return each(raw, func(n protowire.Number, _ protowire.Type, _, value []byte) error {
		switch n {
		case 1:
			return s.objectMeta(value, &p.ObjectMeta)
		case 2:
			return s.spec(value, &p.Spec)
		case 3:
			return s.status(value, &p.Status)
		}
		return nil
	})
}

func (s *stock) objectMeta(raw []byte, m *metav1.ObjectMeta) error {
	common, err := s.meta.of(s, sharedMeta, raw, (*metav1.ObjectMeta).Unmarshal)
	if err != nil {
		return err
	}
	*m = *common
	if s.room, err = ownMeta.trim(s.room[:0], raw); err != nil {
		return err
	}
	return m.Unmarshal(s.room) // adds to what is there
}

func (s *stock) spec(raw []byte, spec *v1.PodSpec) error {
	common, err := s.specs.of(s, podSpec, raw, (*v1.PodSpec).Unmarshal)
	if err != nil {
		return err
	}
	*spec = *common
	return s.ownSpec(raw, spec)
}

// ownSpec reads what Pods of one kind have each for itself: the node, and the affinity of those that name theirs, as a DaemonSet's do.
func (s *stock) ownSpec(raw []byte, spec *v1.PodSpec) error {
	return each(raw, func(n protowire.Number, t protowire.Type, _, value []byte) error {
		switch {
		case n != 10 && n != 18:
		case t != protowire.BytesType:
			return fmt.Errorf("protobuf: field %d of a spec has type %d", n, t)
		case n == 10:
			name, err := s.names.known(value, func(name *string, raw []byte) error {
				*name = string(raw)
				return nil
			})
			if err == nil {
				spec.NodeName = *name
			}
			return err
		default:
			var err error
			spec.Affinity, err = s.affinity.known(value, (*v1.Affinity).Unmarshal)
			return err
		}
		return nil
	})
}

func (s *stock) status(raw []byte, status *v1.PodStatus) error {
	common, err := s.statuses.of(s, podStatus, raw, (*v1.PodStatus).Unmarshal)
	if err != nil {
		return err
	}
	*status = *common
	return nil
}

// mostShared is how many values a stock remembers, twice over.
const mostShared = 4096

// shared finds what was decoded from the same bytes before. What was not asked for while mostShared others were is forgotten.
type shared[T any] struct{ now, before map[string]*T }

// of decodes what a message keeps of raw, or finds it.
func (c *shared[T]) of(s *stock, keep *message, raw []byte, unmarshal func(*T, []byte) error) (*T, error) {
	var err error
	if s.room, err = keep.trim(s.room[:0], raw); err != nil {
		return nil, err
	}
	return c.known(s.room, unmarshal)
}

// known decodes raw, or finds it.
func (c *shared[T]) known(raw []byte, unmarshal func(*T, []byte) error) (*T, error) {
	if v := c.now[string(raw)]; v != nil {
		return v, nil
	}
	v := c.before[string(raw)]
	if v == nil {
		v = new(T)
		if err := unmarshal(v, raw); err != nil {
			return nil, err
		}
	}
	if len(c.now) >= mostShared {
		c.now, c.before = nil, c.now
	}
	if c.now == nil {
		c.now = map[string]*T{}
	}
	c.now[string(raw)] = v
	return v, nil
}
