package memstore

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
)

// Change is one write: Old is nil for a creation, New for a removal. Both are shared and must not
// be changed.
type Change struct{ Old, New runtime.Object }

// Store is all objects of a cluster. Its methods are safe for concurrent use.
type Store struct {
	now  func() time.Time
	seed uint64 // of UIDs

	mu       sync.Mutex
	revision uint64
	made     map[string]int                       // by key: how many objects had it
	objects  map[string]map[string]runtime.Object // by resource prefix and key
	changes  []Change                             // not taken yet
}

// New returns an empty store on the clock now. Stores of one seed give the same UIDs.
func New(now func() time.Time, seed uint64) *Store {
	return &Store{now: now, seed: seed, revision: 1, objects: map[string]map[string]runtime.Object{},
		made: map[string]int{}}
}

// TakeChanges returns the changes since the last call, oldest first.
func (s *Store) TakeChanges() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.changes
	s.changes = nil
	return out
}

// Revision returns the revision of the last write.
func (s *Store) Revision() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Objects returns the objects of a resource by its prefix ("/pods"), sorted by key. They are shared
// and must not be changed.
func (s *Store) Objects(prefix string) []runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.objects[prefix]
	out := make([]runtime.Object, 0, len(of))
	for _, key := range slices.Sorted(maps.Keys(of)) {
		out = append(out, of[key])
	}
	return out
}

// All returns the objects of all resources, sorted by prefix and key. They are shared and must not
// be changed.
func (s *Store) All() []runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []runtime.Object
	for _, prefix := range slices.Sorted(maps.Keys(s.objects)) {
		for _, key := range slices.Sorted(maps.Keys(s.objects[prefix])) {
			out = append(out, s.objects[prefix][key])
		}
	}
	return out
}

// Insert stores an object as it is, with its UID, times and status, and keeps o. It is how a copy
// of another cluster gets in. An object without UID gets one.
func (s *Store) Insert(prefix, key string, o runtime.Object) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.objects[prefix][key]; there {
		return fmt.Errorf("%s is there twice", strings.TrimPrefix(key, "/"))
	}
	if m.GetUID() == "" {
		m.SetUID(s.newUID(key))
	}
	if created := m.GetCreationTimestamp(); created.IsZero() {
		m.SetCreationTimestamp(metav1.NewTime(s.now().Truncate(time.Second)))
	}
	m.SetManagedFields(nil)
	s.put(prefix, key, nil, o)
	return nil
}

// Replace stores o in the place of what has its key, past all rules, and keeps it. What is not
// there is not made.
func (s *Store) Replace(prefix, key string, o runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, there := s.objects[prefix][key]; there {
		s.put(prefix, key, old, o)
	}
}

// Remove takes out what has the key, past all rules.
func (s *Store) Remove(prefix, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, there := s.objects[prefix][key]; there {
		s.revision++
		delete(s.objects[prefix], key)
		s.changes = append(s.changes, Change{Old: old})
	}
}

// put stores o with the next revision. mu is held.
func (s *Store) put(prefix, key string, old, o runtime.Object) {
	s.revision++
	_ = versioner.UpdateObject(o, s.revision) // fails for objects without metadata, which are not stored
	if s.objects[prefix] == nil {
		s.objects[prefix] = map[string]runtime.Object{}
	}
	s.objects[prefix][key] = o
	s.changes = append(s.changes, Change{Old: old, New: o})
}

// newUID returns the UID of the next object of a key: with one seed the n-th has always the same,
// whatever else is made at the same time. mu is held.
func (s *Store) newUID(key string) types.UID {
	s.made[key]++
	h := fnv.New128a()
	fmt.Fprint(h, s.seed, " ", key, " ", s.made[key])
	sum := h.Sum(nil)
	return types.UID(fmt.Sprintf("%x-%x-4%03x-8%03x-%x", sum[:4], sum[4:6], binary.BigEndian.Uint16(sum[6:8])&0xfff,
		binary.BigEndian.Uint16(sum[8:10])&0xfff, sum[10:]))
}

var versioner = storage.APIObjectVersioner{}
