package sharedwatch

import (
	"bytes"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// cachingObject is an object that several watchers receive and that is encoded once per format. The
// cacher wraps most events' objects in its own, but not those it reads from its history.
type cachingObject struct {
	runtime.Object
	mu             sync.Mutex
	serializations map[runtime.Identifier]*serializationResult
}

// serializationResult is the encoding of the object in one format, made by the first that needs it.
type serializationResult struct {
	once sync.Once
	raw  []byte
	err  error
}

// newCachingObject returns o as a runtime.CacheableObject, which several watch handlers may encode
// at once; o must not be changed any more.
func newCachingObject(o runtime.Object) runtime.Object {
	if _, ok := o.(runtime.CacheableObject); ok {
		return o
	}
	return &cachingObject{Object: o, serializations: map[runtime.Identifier]*serializationResult{}}
}

// CacheEncode implements runtime.CacheableObject. Safe for concurrent use; encode is called once
// per id.
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
		e.err = encode(o.GetObject(), &b) // a copy: encoders set fields of the object
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

// GetObject implements runtime.CacheableObject: a deep copy.
func (o *cachingObject) GetObject() runtime.Object { return o.Object.DeepCopyObject() }

// DeepCopyObject implements runtime.Object.
func (o *cachingObject) DeepCopyObject() runtime.Object { return o.Object.DeepCopyObject() }

// GetObjectMeta implements metav1.ObjectMetaAccessor. The result is shared and must not be changed;
// nil if the object has no metadata.
func (o *cachingObject) GetObjectMeta() metav1.Object {
	m, err := meta.Accessor(o.Object)
	if err != nil {
		return nil
	}
	return m
}
