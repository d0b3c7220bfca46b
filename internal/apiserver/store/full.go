package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Full says that the store has reached its quota. Reads and deletes go on; every other write is refused until space was made.
type Full struct {
	Size, Quota int64 // bytes
	Err         error // what etcd said; nil when it was asked
}

func (e *Full) Error() string {
	return fmt.Sprintf("etcdserver: mvcc: database space exceeded: the store holds %d MiB of %d MiB and takes no more writes; make room with `gantry etcd compact` and then `gantry etcd defrag`",
		e.Size>>20, e.Quota>>20)
}

// Unwrap returns what etcd said.
func (e *Full) Unwrap() error { return e.Err }

// Status is the answer a client gets: upstream's code and reason, with the remedy in the text.
func (e *Full) Status() metav1.Status {
	return metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: "Internal error occurred: " + e.Error(), Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: e.Error()}}},
	}
}

// errCorrupt says what to do when etcd's own checks found members or revisions that differ.
var errCorrupt = errors.New("etcd found its data corrupt and takes no more writes: restore a snapshot with `gantry etcd snapshot restore`")

// alarmed says why the embedded etcd refuses writes; nil when it does not.
func (s *Store) alarmed() error {
	for _, a := range s.embedded.Server.Alarms() {
		switch a.Alarm {
		case pb.AlarmType_NOSPACE:
			return s.full(nil)
		case pb.AlarmType_CORRUPT:
			return errCorrupt
		}
	}
	return nil
}

func (s *Store) full(err error) error {
	return &Full{Size: s.embedded.Server.Backend().Size(), Quota: s.embedded.Server.Cfg.QuotaBackendBytes, Err: err}
}

// telling is a KV whose errors of a full store carry figures and the remedy.
type telling struct {
	clientv3.KV
	store *Store
}

func (t telling) Txn(ctx context.Context) clientv3.Txn { return tellingTxn{t.KV.Txn(ctx), t.store} }

// Put implements clientv3.KV.
func (t telling) Put(ctx context.Context, key, val string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	res, err := t.KV.Put(ctx, key, val, opts...)
	return res, t.store.tell(err)
}

type tellingTxn struct {
	clientv3.Txn
	store *Store
}

func (t tellingTxn) If(cs ...clientv3.Cmp) clientv3.Txn { return tellingTxn{t.Txn.If(cs...), t.store} }
func (t tellingTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	return tellingTxn{t.Txn.Then(ops...), t.store}
}
func (t tellingTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	return tellingTxn{t.Txn.Else(ops...), t.store}
}

// Commit implements clientv3.Txn.
func (t tellingTxn) Commit() (*clientv3.TxnResponse, error) {
	res, err := t.Txn.Commit()
	return res, t.store.tell(err)
}

func (s *Store) tell(err error) error {
	if errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(err, rpctypes.ErrGRPCNoSpace) {
		return s.full(err)
	}
	if errors.Is(err, rpctypes.ErrCorrupt) || errors.Is(err, rpctypes.ErrGRPCCorrupt) {
		return fmt.Errorf("%w (%w)", errCorrupt, err)
	}
	return err
}
