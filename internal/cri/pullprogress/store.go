package pullprogress

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	content "github.com/containerd/containerd/api/services/content/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gantry-project/gantry/internal/cri"
)

const (
	namespace    = "k8s.io"        // where containerd's CRI plugin keeps its images
	idleTimeout  = time.Minute     // without pulls the connection is given up
	queryTimeout = 2 * time.Second // of one question; nobody waits for the answer but those who ask why
)

// Store is a runtime's content store.
type Store struct {
	api         content.ContentClient
	conn        *grpc.ClientConn
	unsupported atomic.Bool // the runtime does not know the API
}

// Options say where the runtime is.
type Options struct {
	Endpoint string // of the image service, as cri.Options have it
	// Dialer opens the connection; nil dials the unix socket at the given path.
	Dialer func(ctx context.Context, path string) (net.Conn, error)
}

// Open returns the store behind an endpoint. Nothing is dialled before somebody asks.
func Open(o Options) (*Store, error) {
	path, err := cri.SocketPath(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if o.Dialer == nil {
		o.Dialer = func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return o.Dialer(ctx, path) }),
		grpc.WithIdleTimeout(idleTimeout))
	if err != nil {
		return nil, err
	}
	return &Store{api: content.NewContentClient(conn), conn: conn}, nil
}

// Close ends the connection.
func (s *Store) Close() error { return s.conn.Close() }

// PullProgress returns how many bytes of the image's layers and configuration are on the node, and
// how many there are in all, while it is being pulled. ok is false when the runtime does not tell,
// or not yet: the manifest, which has the sizes, has to come first.
func (s *Store) PullProgress(ctx context.Context, image string) (done, total int64, ok bool) {
	if s.unsupported.Load() {
		return 0, 0, false
	}
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "containerd-namespace", namespace),
		queryTimeout)
	defer cancel()
	done, total, err := s.measure(ctx, image)
	if status.Code(err) == codes.Unimplemented {
		s.unsupported.Store(true)
	}
	return done, total, err == nil && total > 0
}
