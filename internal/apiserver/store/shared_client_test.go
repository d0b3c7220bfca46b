package store

import (
	"errors"
	"testing"
	"time"
)

// The library asks for etcd's status beside everything else; a store that is closed meanwhile
// answers that it is, and is not read.
func TestStatusOfAClosedStore(t *testing.T) {
	s, err := Open(t.Context(), Options{Dir: t.TempDir(), NoFsync: true, Tick: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	v := namedClient{s.shared.client.Client, s}
	if _, err := v.Status(t.Context(), v.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := v.Status(t.Context(), v.Endpoints()[0]); !errors.Is(err, errClosed) {
		t.Errorf("%v, want %v", err, errClosed)
	}
}
