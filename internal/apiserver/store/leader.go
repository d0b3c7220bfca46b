package store

import (
	"context"
	"expvar"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// becomeLeader makes the only member of an embedded etcd leader, with the message by which raft
// hands leadership over. Left to itself the member waits one to five ticks for a leader that cannot
// come: ticks would have to be short, and short ticks wake an idle process all the time. Should it
// come to nothing, the member elects itself after some ticks.
func becomeLeader(ctx context.Context, s *etcdserver.EtcdServer) {
	self := uint64(s.MemberID())
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for s.Lead() != self {
		if appliedAll(s) {
			// an end of the server is seen elsewhere
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

// appliedAll says that raft knows of all it wrote to the log before as applied. Before that it
// looks for changes of members in what is not, which the server may have dropped by then. What raft
// itself takes for applied stands in a variable that etcd publishes; the server's own figures run
// ahead of it.
func appliedAll(s *etcdserver.EtcdServer) bool {
	status, ok := expvar.Get("raft.status").(expvar.Func)
	if !ok {
		return false
	}
	st, ok := status.Value().(raft.Status)
	return ok && st.ID == uint64(s.MemberID()) && st.GetCommit() > 0 && st.Applied == st.GetCommit() &&
		st.GetCommit() == s.CommittedIndex() && s.AppliedIndex() == st.Applied
}
