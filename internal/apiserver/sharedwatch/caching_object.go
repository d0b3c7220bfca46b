package sharedwatch

import (
	"bytes"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// cachingObject is an object that several watchers are told of, encoded once per format. The watch
// cache tells of most events in such a way, but not of those that it finds in its history.
type cachingObject struct {
	runtime.Object
	mu             sync.Mutex
	serializations map[runtime.Identifier]*serializationResult
}

type serializationResult struct {
	once sync.Once
	raw  []byte
	err  error
}

// newCachingObject returns an object that many may encode at once: that of a shared watch is one
// for all members, and who encodes it must go through runtime.CacheableObject.
func newCachingObject(o runtime.Object) runtime.Object {
	if _, ok := o.(runtime.CacheableObject); ok {
		return o
	}
	return &cachingObject{Object: o, serializations: map[runtime.Identifier]*serializationResult{}}
}

// CacheEncode implements runtime.CacheableObject.
func (o *cachingObject) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error,
	w io.Writer) error {
	o.mu.Lock()
	e := o.serializations[id]
	if e == nil {
		e = &serializationResult{}
		o.serializations[id] = e
	}
	o.mu.Unlock()
	e.once.Do(func() {
		var b bytes.Buffer
		e.err = encode(o.GetObject(), &b) // encoders write into what they are given
		e.raw = b.Bytes()
	})
	if e.err != nil {
		return e.err
	}
	if s, ok := w.(runtime.Splice); ok {
		s.Splice(e.raw)
		return nil
	}
	_, err := w.Write(e.raw)
	return err
}

// GetObject implements runtime.CacheableObject.
func (o *cachingObject) GetObject() runtime.Object { return o.Object.DeepCopyObject() }

// DeepCopyObject implements runtime.Object.
func (o *cachingObject) DeepCopyObject() runtime.Object { return o.Object.DeepCopyObject() }

// GetObjectMeta implements metav1.ObjectMetaAccessor, for reading; nil for what has no metadata.
func (o *cachingObject) GetObjectMeta() metav1.Object {
	m, err := meta.Accessor(o.Object)
	if err != nil {
		return nil
	}
	return m
}
