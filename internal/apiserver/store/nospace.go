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

// NoSpaceError is the error of writes, and of Ping, when the store has reached its quota. Reads and
// deletes still work.
type NoSpaceError struct {
	Size, Quota int64 // bytes
	Err         error // etcd's error; nil if the alarm was read
}

func (e *NoSpaceError) Error() string {
	return fmt.Sprintf("etcdserver: mvcc: database space exceeded: the store holds %d MiB of %d MiB and takes no "+
		"more writes; make room with `gantry etcd compact` and then `gantry etcd defrag`",
		e.Size>>20, e.Quota>>20)
}

// Unwrap returns etcd's error.
func (e *NoSpaceError) Unwrap() error { return e.Err }

// Status implements errors.APIStatus: upstream's code and reason, with the remedy in the message.
func (e *NoSpaceError) Status() metav1.Status {
	return metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: "Internal error occurred: " + e.Error(),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: e.Error()}}},
	}
}

// errCorrupt says what to do when etcd's own checks found members or revisions that differ.
var errCorrupt = errors.New("etcd found its data corrupt and takes no more writes: restore a snapshot with `gantry " +
	"etcd snapshot restore`")

// alarmError returns why the embedded etcd refuses writes: *NoSpaceError or errCorrupt; nil if it
// does not.
func (s *Store) alarmError() error {
	for _, a := range s.embedded.Server.Alarms() {
		switch a.Alarm {
		case pb.AlarmType_NOSPACE:
			return s.noSpaceError(nil)
		case pb.AlarmType_CORRUPT:
			return errCorrupt
		}
	}
	return nil
}

// noSpaceError returns a *NoSpaceError with the present size.
func (s *Store) noSpaceError(err error) error {
	return &NoSpaceError{Size: s.embedded.Server.Backend().Size(), Quota: s.embedded.Server.Cfg.QuotaBackendBytes,
		Err: err}
}

// noSpaceKV is a clientv3.KV whose errors explainNoSpace has completed.
type noSpaceKV struct {
	clientv3.KV
	store *Store
}

func (t noSpaceKV) Txn(ctx context.Context) clientv3.Txn { return noSpaceTxn{t.KV.Txn(ctx), t.store} }

// Put implements clientv3.KV.
func (t noSpaceKV) Put(ctx context.Context, key, val string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	res, err := t.KV.Put(ctx, key, val, opts...)
	return res, t.store.explainNoSpace(err)
}

// noSpaceTxn is noSpaceKV for transactions.
type noSpaceTxn struct {
	clientv3.Txn
	store *Store
}

func (t noSpaceTxn) If(cs ...clientv3.Cmp) clientv3.Txn { return noSpaceTxn{t.Txn.If(cs...), t.store} }
func (t noSpaceTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	return noSpaceTxn{t.Txn.Then(ops...), t.store}
}
func (t noSpaceTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	return noSpaceTxn{t.Txn.Else(ops...), t.store}
}

// Commit implements clientv3.Txn.
func (t noSpaceTxn) Commit() (*clientv3.TxnResponse, error) {
	res, err := t.Txn.Commit()
	return res, t.store.explainNoSpace(err)
}

// explainNoSpace returns etcd's NOSPACE error as *NoSpaceError and its CORRUPT error as errCorrupt;
// others as they are.
func (s *Store) explainNoSpace(err error) error {
	if errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(err, rpctypes.ErrGRPCNoSpace) {
		return s.noSpaceError(err)
	}
	if errors.Is(err, rpctypes.ErrCorrupt) || errors.Is(err, rpctypes.ErrGRPCCorrupt) {
		return fmt.Errorf("%w (%w)", errCorrupt, err)
	}
	return err
}
