package wire

import (
	"bytes"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// magic begins objects in protobuf (k8s.io/apimachinery/pkg/runtime/serializer/protobuf).
var magic = []byte("k8s\x00")

var (
	podKind  = v1.SchemeGroupVersion.WithKind("Pod")
	listKind = v1.SchemeGroupVersion.WithKind("PodList")
)

// decoder decodes Pods and lists of them itself and leaves all else to an ordinary one.
type decoder struct {
	runtime.Serializer
	*stock
}

// stock is what Pods share, and room to work in.
type stock struct {
	mu       sync.Mutex
	meta     shared[metav1.ObjectMeta]
	specs    shared[v1.PodSpec]
	statuses shared[v1.PodStatus]
	names    shared[string]
	room     []byte
}

// Decode decodes into a new object, or into one that is a Pod or a list of Pods.
func (d decoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if kind, raw := envelope(data); kind == podKind.Kind || kind == listKind.Kind {
		d.mu.Lock()
		defer d.mu.Unlock()
		switch o := into.(type) {
		case nil:
			if kind == podKind.Kind {
				if p := (&v1.Pod{}); d.pod(raw, p) == nil {
					return p, &podKind, nil
				}
			} else if l := (&v1.PodList{}); d.list(raw, l) == nil {
				return l, &listKind, nil
			}
		case *v1.Pod:
			if p := (v1.Pod{}); kind == podKind.Kind && d.pod(raw, &p) == nil {
				*o = p
				return o, &podKind, nil
			}
		case *v1.PodList:
			if l := (v1.PodList{}); kind == listKind.Kind && d.list(raw, &l) == nil {
				*o = l
				return o, &listKind, nil
			}
		}
	}
	return d.Serializer.Decode(data, defaults, into) // its errors say what is wrong
}

// envelope gives the kind of an object of v1 and its bytes; an empty kind for what it cannot read.
func envelope(data []byte) (kind string, raw []byte) {
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
					version = string(value) == podKind.Version
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

func (s *stock) list(raw []byte, l *v1.PodList) error {
	return each(raw, func(n protowire.Number, _ protowire.Type, _, value []byte) error {
		switch n {
		case 1:
			return l.ListMeta.Unmarshal(value)
		case 2:
			l.Items = append(l.Items, v1.Pod{})
			return s.pod(value, &l.Items[len(l.Items)-1])
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
	node, err := s.names.of(s, nodeName, raw, func(name *string, raw []byte) error {
		var only v1.PodSpec
		err := only.Unmarshal(raw)
		*name = only.NodeName
		return err
	})
	if err != nil {
		return err
	}
	*spec = *common
	spec.NodeName = *node
	return nil
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
	if v := c.now[string(s.room)]; v != nil {
		return v, nil
	}
	v := c.before[string(s.room)]
	if v == nil {
		v = new(T)
		if err := unmarshal(v, s.room); err != nil {
			return nil, err
		}
	}
	if len(c.now) >= mostShared {
		c.now, c.before = nil, c.now
	}
	if c.now == nil {
		c.now = map[string]*T{}
	}
	c.now[string(s.room)] = v
	return v, nil
}
