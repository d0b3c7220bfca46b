package store

import (
	"context"
	"expvar"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// becomeLeader makes the only member of an embedded etcd the leader, with raft's message for a
// leadership transfer (MsgTimeoutNow), until it leads, the server stops or ctx ends. By itself the
// member waits for one to five ticks; short ticks would wake an idle process all the time. If the
// message has no effect, the member elects itself after that.
func becomeLeader(ctx context.Context, s *etcdserver.EtcdServer) {
	self := uint64(s.MemberID())
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for s.Lead() != self {
		if appliedAll(s) {
			// an error means that the server stops, which the select sees
			_ = s.Process(ctx, &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: &self, To: &self})
		}
		select {
		case <-again.C:
		case <-s.StopNotify():
			return
		case <-ctx.Done():
			return
		}
	}
}

// appliedAll reports whether raft has applied everything in its log. Before that, a campaign reads
// the entries that are not applied, looking for membership changes, and panics if the server has
// dropped them. raft's own applied index is read from the expvar that etcd publishes; the server's
// figures run ahead of it.
func appliedAll(s *etcdserver.EtcdServer) bool {
	status, ok := expvar.Get("raft.status").(expvar.Func)
	if !ok {
		return false
	}
	st, ok := status.Value().(raft.Status)
	return ok && st.ID == uint64(s.MemberID()) && st.GetCommit() > 0 && st.Applied == st.GetCommit() &&
		st.GetCommit() == s.CommittedIndex() && s.AppliedIndex() == st.Applied
}
