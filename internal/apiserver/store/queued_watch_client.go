package store

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"google.golang.org/grpc"
)

// newInProcessClient returns a client of an embedded etcd whose watch streams cannot deadlock.
// Those of v3client.New can: their channels are unbuffered, so the goroutine that both sends
// requests and receives responses waits for a server that waits for its responses to be received,
// once some twenty watches are cancelled at a time; then no watch of the stream ever gets an event
// again. Do not use v3client.New for watches elsewhere.
func newInProcessClient(e *embed.Etcd) *clientv3.Client {
	c := v3client.New(e.Server)
	watches := adapter.WatchServerToWatchClient(v3rpc.NewWatchServer(e.Server))
	c.Watcher = clientv3.NewWatchFromWatchClient(queuedWatchClient{watches}, c)
	return c
}

// queuedWatchClient opens streams that queue requests.
type queuedWatchClient struct{ pb.WatchClient }

// Watch implements pb.WatchClient.
func (q queuedWatchClient) Watch(ctx context.Context, o ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	w, err := q.WatchClient.Watch(ctx, o...)
	if err != nil {
		return nil, err
	}
	s := &queuedWatchStream{Watch_WatchClient: w, ready: make(chan struct{}, 1)}
	go s.deliver()
	return s, nil
}

// queuedWatchStream is a watch stream whose Send never blocks. The queue is bounded by the number
// of watches: each is created and cancelled once, and adjacent progress requests become one.
type queuedWatchStream struct {
	pb.Watch_WatchClient
	ready chan struct{} // there is something to deliver

	mu      sync.Mutex
	pending []*pb.WatchRequest
}

// Send implements pb.Watch_WatchClient. It fails only after the stream has ended.
func (s *queuedWatchStream) Send(r *pb.WatchRequest) error {
	if err := s.Context().Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.pending); n > 0 && r.GetProgressRequest() != nil && s.pending[n-1].GetProgressRequest() != nil {
		return nil
	}
	s.pending = append(s.pending, r)
	select {
	case s.ready <- struct{}{}:
	default:
	}
	return nil
}

// deliver sends the queued requests to the server, in order, until the stream ends.
func (s *queuedWatchStream) deliver() {
	for {
		select {
		case <-s.ready:
		case <-s.Context().Done():
			return
		}
		s.mu.Lock()
		batch := s.pending
		s.pending = nil
		s.mu.Unlock()
		for _, r := range batch {
			if s.Watch_WatchClient.Send(r) != nil { // the stream has ended; Recv returns the error
				return
			}
		}
	}
}
