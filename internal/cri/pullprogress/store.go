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
	namespace    = "k8s.io"        // containerd namespace of CRI's images
	idleTimeout  = time.Minute     // the connection is closed after this time without pulls
	queryTimeout = 2 * time.Second // of one request
)

// Store is a containerd content store. It is safe for concurrent use.
type Store struct {
	api         content.ContentClient
	conn        *grpc.ClientConn
	unsupported atomic.Bool // the runtime lacks the API
}

// Options configure a Store.
type Options struct {
	Endpoint string // of the image service, as in cri.Options
	// Dialer opens the connection; nil dials the unix socket at the given path.
	Dialer func(ctx context.Context, path string) (net.Conn, error)
}

// Open returns the store of an endpoint. It connects at the first request.
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

// Close closes the connection.
func (s *Store) Close() error { return s.conn.Close() }

// PullProgress returns how many bytes of the image's layers and configuration are fetched, and
// their total, while the image is pulled. ok is false if the runtime does not report it, or not
// yet: the manifest, which has the sizes, comes first.
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
